"""Makes tests/fixtures/pipe_chroma: a small Chroma transformer, what diffusers makes of it block by block, and two pictures of its pipeline, with the text
encoder of pipe_pixart_sigma and the autoencoder of pipe_flux. The mask of the text is made boolean: diffusers 0.42 adds its ones and zeros to the scores.

Run from the repository root, with diffusers 0.42.1, transformers 5.23.0 and torch:
    python3 tests/reference/chroma.py
"""
import json
import os

import torch
from diffusers import AutoencoderKL, ChromaPipeline, ChromaTransformer2DModel, FlowMatchEulerDiscreteScheduler
from safetensors.torch import save_file
from transformers import AutoTokenizer, T5EncoderModel

OUT = "tests/fixtures/pipe_chroma"
encoder = T5EncoderModel.from_pretrained("tests/fixtures/pipe_pixart_sigma/text_encoder", dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained("tests/fixtures/pipe_pixart_sigma/tokenizer")
vae = AutoencoderKL.from_pretrained("tests/fixtures/pipe_flux/vae", torch_dtype=torch.float32).eval()
SIZES = dict(in_channels=64, num_layers=1, num_single_layers=2, attention_head_dim=8, num_attention_heads=3, joint_attention_dim=encoder.config.d_model,
             axes_dims_rope=(2, 2, 4), approximator_num_channels=64, approximator_hidden_dim=32, approximator_layers=2)
SCHEDULER = dict(shift=3.0, use_dynamic_shifting=True)
torch.manual_seed(8)
golden, lines = {}, []

model = ChromaTransformer2DModel(**SIZES).eval()
for name, value in model.named_parameters():  # values that bfloat16 holds
    scale = 0.2 if value.dim() == 1 else 1.0 / value.shape[-1] ** 0.5
    value.data = (torch.randn_like(value) * scale + (1.0 if "norm" in name else 0.0)).bfloat16().float()

hooks = []
for name, module in model.named_modules():
    if name in ("distilled_guidance_layer", "transformer_blocks.0", "single_transformer_blocks.0", "single_transformer_blocks.1"):
        def hook(_, __, out, name=name):
            for part, value in enumerate(out if isinstance(out, tuple) else (out,)):
                golden[f"case0.mid.{name}" + (f".{part}" if isinstance(out, tuple) else "")] = value.clone()
        hooks.append(module.register_forward_hook(hook))
inputs = {"hidden_states": torch.randn(1, 12, 64), "encoder_hidden_states": torch.randn(1, 7, SIZES["joint_attention_dim"]) * 0.7, "timestep": torch.tensor([0.7])}
ids = torch.cartesian_prod(torch.zeros(1), torch.arange(3.0), torch.arange(4.0))
mask = torch.arange(19) != 6
mask[5] = False  # five rows of text count
with torch.no_grad():
    golden["case0.out"] = model(**inputs, img_ids=ids, txt_ids=torch.zeros(7, 3), attention_mask=mask[None]).sample
for hook in hooks:
    hook.remove()
golden |= {f"case0.in.{name}": value for name, value in inputs.items()}
golden["case0.in.attention_mask"] = mask[:7].float()

pipe = ChromaPipeline(FlowMatchEulerDiscreteScheduler(**SCHEDULER), vae, encoder, tokenizer, model)
extend = pipe._prepare_attention_mask
pipe._prepare_attention_mask = lambda *a, **k: (lambda m: m if m is None else m.bool())(extend(*a, **k))


def call(name, **arguments):
    latents, kept = torch.randn(1, 12, 64), {}

    def ended(_, step, timestep, given):
        kept["last"] = given["latents"].clone()
        return given
    steps = arguments["num_inference_steps"]
    image = pipe(**arguments, width=64, height=48, latents=latents.clone(), output_type="pt", max_sequence_length=20, callback_on_step_end=ended).images
    golden[f"{name}.in.latents"] = latents
    golden[f"{name}.step{steps - 1}.latents"] = kept["last"]
    if name == "cfg":
        golden[f"{name}.out.image01"] = image.half()
    lines.append(f"call {name}: " + json.dumps(dict(arguments, width=64, height=48)))


call("cfg", prompt="a red Fox in the Snow", negative_prompt="low quality, ugly, unfinished", num_inference_steps=3, guidance_scale=4.0)
call("flash", prompt="a photo of an astronaut riding a horse on mars", num_inference_steps=2, guidance_scale=1.0)

os.makedirs(f"{OUT}/transformer", exist_ok=True)
os.makedirs(f"{OUT}/scheduler", exist_ok=True)
save_file({name: value.bfloat16().contiguous() for name, value in model.state_dict().items()}, f"{OUT}/transformer/diffusion_pytorch_model.safetensors")
save_file({name: value.contiguous() for name, value in golden.items()}, f"{OUT}/golden.safetensors")
for path, what in (("transformer/config.json", {"_class_name": "ChromaTransformer2DModel", **SIZES}), ("model_index.json", {"_class_name": "ChromaPipeline"}),
                   ("scheduler/scheduler_config.json", {"_class_name": "FlowMatchEulerDiscreteScheduler", **SCHEDULER})):
    with open(f"{OUT}/{path}", "w") as file:
        json.dump(what, file, indent=1)
with open(f"{OUT}/README", "w") as file:
    file.write("ChromaTransformer2DModel (Chroma1), by tests/reference/chroma.py; diffusers 0.42.1, transformers 5.23.0, float32, CPU.\n"
               "case0: one evaluation whose mask leaves five of seven rows of text; distilled_guidance_layer is the approximator.\n"
               "Calls of the pipeline: text encoder and tokenizer are pipe_pixart_sigma's, the autoencoder is pipe_flux's. The mask is boolean, as Chroma was trained.\n")
    file.write("\n".join(lines) + "\n")
