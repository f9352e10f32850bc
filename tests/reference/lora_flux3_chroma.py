"""Makes tests/fixtures/lora_chroma and lora_flux3: LoRAs of made-up values for the transformers of pipe_chroma and pipe_flux3 under the names of diffusers
and PEFT, kohya's scripts, BFL and ComfyUI, and what the models put out with them, in double precision. PEFT computes its own file; of the other files the
deltas are added to the weights here.

Run from the repository root, with diffusers 0.42.1, peft and torch:
    python3 tests/reference/lora_flux3_chroma.py
"""
import json
import os

import torch
from diffusers import ChromaTransformer2DModel, Flux3Transformer2DModel
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model
from safetensors.torch import load_file, save_file

# Modules by the original's names, and the rows of diffusers' modules that each stands for.
CHROMA = {
    "img_in": ["x_embedder"],
    "txt_in": ["context_embedder"],
    "distilled_guidance_layer.in_proj": ["distilled_guidance_layer.in_proj"],
    "distilled_guidance_layer.layers.1.in_layer": ["distilled_guidance_layer.layers.1.linear_1"],
    "distilled_guidance_layer.layers.0.out_layer": ["distilled_guidance_layer.layers.0.linear_2"],
    "double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.to_{x}" for x in "qkv"],
    "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{x}_proj" for x in "qkv"],
    "double_blocks.0.img_attn.proj": ["transformer_blocks.0.attn.to_out.0"],
    "double_blocks.0.txt_attn.proj": ["transformer_blocks.0.attn.to_add_out"],
    "double_blocks.0.img_mlp.0": ["transformer_blocks.0.ff.net.0.proj"],
    "double_blocks.0.img_mlp.2": ["transformer_blocks.0.ff.net.2"],
    "double_blocks.0.txt_mlp.2": ["transformer_blocks.0.ff_context.net.2"],
    "single_blocks.0.linear1": [f"single_transformer_blocks.0.{x}" for x in ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")],
    "single_blocks.1.linear1": [f"single_transformer_blocks.1.{x}" for x in ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")],
    "single_blocks.1.linear2": ["single_transformer_blocks.1.proj_out"],
    "final_layer.linear": ["proj_out"],
}
FLUX3 = {
    "emb_in.image": ["x_embedders.image"],
    "txt_in": ["context_embedder"],
    "time_in.out_layer": ["timestep_embedder.linear_2"],
    "early_stream_modulations.txt.lin": ["early_stream_modulations.txt.linear"],
    "single_stream_modulations.image.lin": ["single_stream_modulations.image.linear"],
    "content_mode_blocks.image.0.q_proj": ["mode_blocks.image.0.attn.to_q"],
    "content_mode_blocks.image.0.v_proj": ["mode_blocks.image.0.attn.to_v"],
    "content_mode_blocks.image.0.mlp_in": ["mode_blocks.image.0.ff.linear_in"],
    "content_mode_blocks.image_cond.0.attn_out": ["mode_blocks.image_cond.0.attn.to_out.0"],
    "txt_mode_blocks.0.k_proj": ["txt_mode_blocks.0.attn.to_k"],
    "txt_mode_blocks.0.attn_out": ["txt_mode_blocks.0.attn.to_out.0"],
    "txt_mode_blocks.0.mlp_out": ["txt_mode_blocks.0.ff.linear_out"],
    "single_blocks.0.q_proj": ["single_transformer_blocks.0.attn.to_q"],
    "single_blocks.0.mlp_in": ["single_transformer_blocks.0.ff.linear_in"],
    "single_blocks.1.k_proj": ["single_transformer_blocks.1.attn.to_k"],
    "single_blocks.1.attn_out": ["single_transformer_blocks.1.attn.to_out.0"],
    "single_blocks.1.mlp_out": ["single_transformer_blocks.1.ff.linear_out"],
    "final_layer.image.linear": ["proj_out"],
}
RANK = 3


def inputs_of(flux3):
    """24 tokens, 4 lines of 6, and 7 rows of text."""
    columns, text = (128, 144) if flux3 else (64, 32)
    ids = torch.cartesian_prod(torch.zeros(1), torch.arange(4.0), torch.arange(6.0), *([torch.zeros(1)] if flux3 else []))
    if flux3:
        ids[:, 1:3] *= 0.5
    texts = torch.cartesian_prod(*([torch.zeros(1)] * 3), torch.arange(7.0)) if flux3 else torch.zeros(7, 3)
    inputs = {"hidden_states": torch.randn(1, 24, columns), "encoder_hidden_states": torch.randn(1, 7, text) * 0.7, "timestep": torch.tensor([0.7])}
    more = {"target_timestep": torch.tensor([0.0])} if flux3 else {}
    return inputs, {"img_ids": ids, "txt_ids": texts, **more}


def evaluate(model, inputs, more):
    with torch.no_grad():
        doubles = {name: value.double() for name, value in {**inputs, **more}.items()}
        return model(**doubles).sample.float()


def factors(modules, shape_of, seed):
    """Down and up of each module, and what up * down adds to it."""
    torch.manual_seed(seed)
    made = {}
    for original, parts in modules.items():
        rows, columns = sum(shape_of(part)[0] for part in parts), shape_of(parts[0])[1]
        made[original] = torch.randn(RANK, columns) / columns ** 0.5, torch.randn(rows, RANK) * 0.2
    return made


def with_deltas(model, modules, *weighted):
    """The model with weight * scale * up * down added, then without again."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    weights = model.state_dict()
    for weight, scale, made in weighted:
        for original, (down, up) in made.items():
            delta, row = weight * scale * up.double() @ down.double(), 0
            for part in modules[original]:
                rows = weights[part + ".weight"].shape[0]
                weights[part + ".weight"] += delta[row:row + rows]
                row += rows
    return kept


def folder(name, model, modules, seed):
    out = f"tests/fixtures/lora_{name}"
    os.makedirs(out, exist_ok=True)
    flux3 = name == "flux3"
    torch.manual_seed(seed)
    inputs, more = inputs_of(flux3)
    golden = {f"case0.in.{key}": value for key, value in inputs.items()}
    model = model.double().eval()
    golden["base.out"] = evaluate(model, inputs, more)
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}

    def shape_of(part):
        return shapes[part + ".weight"]

    def run(tag, *weighted):
        kept = with_deltas(model, modules, *weighted)
        golden[f"{tag}.out"] = evaluate(model, inputs, more)
        model.load_state_dict(kept)
        print(name, tag, ((golden[f"{tag}.out"] - golden["base.out"]).norm() / golden["base.out"].norm()).item())

    kohya, bfl, comfy = (factors(modules, shape_of, seed + i) for i in (1, 2, 3))
    files = {"kohya": {}, "bfl": {}, "comfy": {}}
    for original, (down, up) in kohya.items():
        key = "lora_unet_" + original.replace(".", "_")
        files["kohya"] |= {f"{key}.lora_down.weight": down, f"{key}.lora_up.weight": up, f"{key}.alpha": torch.tensor(1.5)}
    for original, (down, up) in bfl.items():
        files["bfl"] |= {f"base_model.model.{original}.lora_A.weight": down, f"base_model.model.{original}.lora_B.weight": up}
    for original, (down, up) in comfy.items():
        files["comfy"] |= {f"diffusion_model.{original}.lora_down.weight": down, f"diffusion_model.{original}.lora_up.weight": up}
    run("kohya", (1, 1.5 / RANK, kohya))
    run("bfl", (1, 1, bfl))
    run("comfy_w-0.4", (-0.4, 1, comfy))
    stray = "double_blocks.0.img_mod.lin"  # FLUX.1's LoRAs have it, and people give them to Chroma
    files["stray"] = dict(list(files["bfl"].items())[:8])
    files["stray"] |= {f"base_model.model.{stray}.lora_A.weight": torch.randn(RANK, 24), f"base_model.model.{stray}.lora_B.weight": torch.randn(144, RANK)}
    run("stray", (1, 1, dict(list(bfl.items())[:4])))
    for tag, made in files.items():
        save_file({key: value.contiguous() for key, value in made.items()}, f"{out}/{tag}.safetensors", {"format": "pt"})

    # PEFT's own, with its own arithmetic and names.
    torch.manual_seed(seed + 4)
    config = LoraConfig(r=RANK, lora_alpha=5, target_modules=sorted(part for parts in modules.values() for part in parts), init_lora_weights=False)
    inject_adapter_in_model(config, model)
    made = {}
    for key, value in get_peft_model_state_dict(model).items():  # they share the memory of the parameters
        value.copy_(torch.randn(value.shape) * (0.2 if "lora_B" in key else 1 / value.shape[1] ** 0.5))
        made["transformer." + key] = value.float().contiguous()
    golden["peft.out"] = evaluate(model, inputs, more)
    print(name, "peft", ((golden["peft.out"] - golden["base.out"]).norm() / golden["base.out"].norm()).item())
    told = {"transformer.r": RANK, "transformer.lora_alpha": 5}
    save_file(made, f"{out}/peft.safetensors", {"format": "pt", "lora_adapter_metadata": json.dumps(told)})
    save_file({key: value.contiguous() for key, value in golden.items()}, f"{out}/golden.safetensors")


def loaded(kind, path):
    with open(f"{path}/config.json") as file:
        sizes = {key: value for key, value in json.load(file).items() if key[0] != "_"}
    model = kind(**sizes)
    model.load_state_dict({key: value.float() for key, value in load_file(f"{path}/diffusion_pytorch_model.safetensors").items()})
    return model


folder("chroma", loaded(ChromaTransformer2DModel, "tests/fixtures/pipe_chroma/transformer"), CHROMA, 81)
folder("flux3", loaded(Flux3Transformer2DModel, "tests/fixtures/pipe_flux3/transformer"), FLUX3, 91)
