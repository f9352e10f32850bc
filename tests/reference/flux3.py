"""Makes tests/fixtures/pipe_flux3: a small FLUX.3 image transformer, what diffusers makes of it block by block with and without pictures that are
referred to and a flow map, and three pictures of its pipelines, with the text encoder of pipe_krea2 and the autoencoder of pipe_flux2_klein.

Run from the repository root, with diffusers 0.42.1, transformers 5.23.0 and torch:
    python3 tests/reference/flux3.py
"""
import json
import os
import types

import numpy as np
import torch
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux3Transformer2DModel
from diffusers.modular_pipelines.flux3 import Flux3AutoBlocks, Flux3DistilledAutoBlocks
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoTokenizer, Qwen3VLModel

OUT = "tests/fixtures/pipe_flux3"
SIZES = dict(in_channels=128, cond_in_channels=128, num_layers=1, num_single_layers=2, attention_head_dim=8, num_attention_heads=3, joint_attention_dim=144,
             timestep_channels=256, mlp_ratio=2.0, axes_dims_rope=(2, 2, 2, 2), rope_theta=10000, eps=1e-6)
TAPS = (4, 8, 12)
PROMPT, NEGATIVE = "a photo of an astronaut riding a horse on mars, highly detailed", "blurry, low quality, " * 20
torch.manual_seed(33)
golden, lines = {}, []


def made(flow_map, weights=None):
    model = Flux3Transformer2DModel(**SIZES, flow_map=flow_map).eval()
    if weights is None:  # values that bfloat16 holds
        for name, value in model.named_parameters():
            scale = 0.2 if "norm_" in name and value.dim() == 1 else 1.2 / value.shape[-1] ** 0.5
            drawn = torch.randn_like(value) * scale + (1.0 if value.dim() == 1 else 0.0)
            value.data = drawn.bfloat16().float()
        return model
    model.load_state_dict({name: value for name, value in weights.items() if name in model.state_dict()})
    return model


flow = made(True)
base = made(False, flow.state_dict())


def ids(height, width, l):
    return torch.cartesian_prod(torch.zeros(1), torch.arange(height) * 0.5, torch.arange(width) * 0.5, torch.tensor([float(l)]))


def case(index, model, references, target):
    inputs = {"hidden_states": torch.randn(1, 12, 128), "encoder_hidden_states": torch.randn(1, 7, 144) * 0.7, "timestep": torch.tensor([0.9]), "img_ids": ids(3, 4, 0),
              "txt_ids": torch.cartesian_prod(torch.zeros(1), torch.zeros(1), torch.zeros(1), torch.arange(7.0))}
    if references:
        inputs["image_cond_hidden_states"] = torch.randn(1, 10, 128)
        inputs["image_cond_ids"] = torch.cat([ids(2, 3, -1), ids(2, 2, -2)])
    if target is not None:
        inputs["target_timestep"] = torch.tensor([target])
    hooks = []
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1].isdigit() and name.count(".") < 4 and "blocks" in name and "attn" not in name:
            def hook(_, __, out, name=name):
                for part, value in enumerate(out if isinstance(out, tuple) else (out,)):
                    golden[f"case{index}.mid.{name}" + (f".{part}" if isinstance(out, tuple) else "")] = value.clone()
            hooks.append(module.register_forward_hook(hook))
    with torch.no_grad():
        golden[f"case{index}.out"] = model(**inputs).sample
    for hook in hooks:
        hook.remove()
    for name, value in inputs.items():
        golden[f"case{index}.in.{name}"] = value


case(0, base, True, None)
case(1, flow, True, 0.55)

tokenizer = AutoTokenizer.from_pretrained("tests/fixtures/pipe_krea2/tokenizer")
processor = types.SimpleNamespace(
    tokenizer=tokenizer, apply_chat_template=lambda messages, **_: f"<|im_start|>user\n{messages[0]['content']}<|im_end|>\n<|im_start|>assistant\n")
encoder = Qwen3VLModel.from_pretrained("tests/fixtures/pipe_krea2/text_encoder", dtype=torch.float32).eval()
vae = AutoencoderKLFlux2.from_pretrained("tests/fixtures/pipe_flux2_klein/vae", torch_dtype=torch.float32).eval()


def call(name, model, references, **arguments):
    scheduler = FlowMatchEulerDiscreteScheduler(shift=6.93)
    blocks = (Flux3DistilledAutoBlocks if model is flow else Flux3AutoBlocks)()
    blocks.sub_blocks.pop("prompt_upsampler")  # the prompt is read as it is given
    pipe = blocks.init_pipeline()
    pipe.update_components(transformer=model, vae=vae, text_encoder=encoder, scheduler=scheduler)
    pipe.tokenizer = processor
    latents = torch.randn(1, 128, 3, 4)
    steps = arguments["num_inference_steps"]
    more, kept = {}, {}
    if references:
        more["image"] = references if len(references) > 1 else references[0]
    if model is base:
        arguments["guidance_scale"] = pipe.guider.guidance_scale
    step = scheduler.step

    def stepped(*a, **k):
        out = step(*a, **k)
        kept["last"] = out[0].clone()
        return out
    scheduler.step = stepped
    prompts = {key: arguments[key] for key in ("prompt", "negative_prompt") if key in arguments}
    pipe(**prompts, **more, height=48, width=64, latents=latents.clone(), num_inference_steps=steps, text_encoder_out_layers=TAPS, output_type="pt", output="latents")
    golden[f"{name}.in.latents"] = latents
    golden[f"{name}.step{steps - 1}.latents"] = kept["last"]
    for i, reference in enumerate(references):
        golden[f"{name}.image{i}_u8"] = torch.from_numpy(np.array(reference))
    lines.append(f"call {name}: " + json.dumps(dict(arguments, width=64, height=48)))


def picture(width, height):
    return Image.fromarray(np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8))


call("base", base, [], prompt=PROMPT, negative_prompt=NEGATIVE, num_inference_steps=2)
call("distilled", flow, [], prompt=PROMPT, num_inference_steps=3)
call("edit2", flow, [picture(70, 64), picture(64, 64)], prompt=PROMPT, num_inference_steps=2)

os.makedirs(f"{OUT}/transformer", exist_ok=True)
save_file({name: value.bfloat16().contiguous() for name, value in flow.state_dict().items()}, f"{OUT}/transformer/diffusion_pytorch_model.safetensors")
save_file({name: value.contiguous() for name, value in golden.items()}, f"{OUT}/golden.safetensors")
with open(f"{OUT}/transformer/config.json", "w") as file:
    json.dump({"_class_name": "Flux3Transformer2DModel", **SIZES, "flow_map": True}, file, indent=1)
with open(f"{OUT}/model_index.json", "w") as file:
    json.dump({"_class_name": "Flux3DistilledModularPipeline", "text_encoder_select_layers": TAPS}, file, indent=1)
with open(f"{OUT}/README", "w") as file:
    file.write("Flux3Transformer2DModel (FLUX.3 image klein), by tests/reference/flux3.py; diffusers 0.42.1, transformers 5.23.0, float32, CPU.\n"
               "case0: two references, no flow map (config.json says true: the file also holds target_timestep_embedder); case1: the same with the timestep this step jumps to.\n"
               "Calls of the pipelines: the text encoder and tokenizer are pipe_krea2's, states 4, 8 and 12; the autoencoder is pipe_flux2_klein's. base goes without the flow map.\n")
    file.write("\n".join(lines) + "\n")
