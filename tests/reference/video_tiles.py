"""Adds clips in tiles to the goldens of vae_hunyuanvideo and vae_wan, and makes tests/fixtures/vae_cogvideox_tiles, which has the weights of
pipe_cogvideox_2b: what diffusers makes with tiling enabled. Tiles are 4 x 4 of the latent, at steps of 3.

    caseI, encI       untiled; of HunyuanVideo longer than 16 frames, which fall into chunks that fade
    tiled, tiled_enc  in tiles

Run from the repository root, with diffusers 0.42.1 and torch:
    python3 tests/reference/video_tiles.py
"""
import os
import shutil

import torch
from diffusers import AutoencoderKLCogVideoX, AutoencoderKLHunyuanVideo, AutoencoderKLWan
from safetensors.torch import load_file, save_file


def load(kind, folder):
    model = kind.from_config(kind.load_config(folder)).eval()
    names = [n for n in ("model.safetensors", "diffusion_pytorch_model.safetensors") if os.path.exists(f"{folder}/{n}")]
    model.load_state_dict({k: v.float() for k, v in load_file(f"{folder}/{names[0]}").items()})
    return model


def latents(*shape):
    return torch.randn(1, 16, *shape)


def video(*shape):
    return torch.rand(1, 3, *shape) * 2 - 1


def record(golden, model, name, z=None, x=None):
    with torch.no_grad():
        if z is not None:
            golden[name + ".in.z"], golden[name + ".out"] = z, model.decode(z).sample
        if x is not None:
            moments = model.encode(x).latent_dist
            golden[name + ".in.video"], golden[name + ".out.mean"], golden[name + ".out.logvar"] = x, moments.mean, moments.logvar


def store(folder, golden):
    path = folder + "/golden.safetensors"
    old = load_file(path) if os.path.exists(path) else {}
    save_file({**old, **{k: v.contiguous() for k, v in golden.items()}}, path)
    os.chmod(path, 0o644)


torch.manual_seed(17)
golden, model = {}, load(AutoencoderKLHunyuanVideo, "tests/fixtures/vae_hunyuanvideo")
record(golden, model, "case2", z=latents(8, 2, 2))
record(golden, model, "case3", z=latents(6, 1, 1))
record(golden, model, "enc2", x=video(29, 16, 16))
record(golden, model, "enc3", x=video(18, 16, 16))
model.enable_tiling(32, 32, 16, 24, 24, 12)
record(golden, model, "tiled", z=latents(5, 5, 3))
record(golden, model, "tiled_enc", x=video(17, 16, 40))
store("tests/fixtures/vae_hunyuanvideo", golden)

golden, model = {}, load(AutoencoderKLWan, "tests/fixtures/vae_wan")
model.enable_tiling(32, 32, 24, 24)
clamp, torch.clamp = torch.clamp, lambda x, **limits: x  # dit.h clamps where pixels become bytes
record(golden, model, "tiled", z=latents(2, 5, 6))
torch.clamp = clamp
record(golden, model, "tiled_enc", x=video(5, 40, 40))
store("tests/fixtures/vae_wan", golden)

golden, model = {}, load(AutoencoderKLCogVideoX, "tests/fixtures/pipe_cogvideox_2b/vae")
record(golden, model, "case0", z=latents(3, 2, 1))
record(golden, model, "enc0", x=video(9, 8, 16))
model.enable_tiling(32, 32, 0.25, 0.25)
record(golden, model, "tiled", z=latents(3, 5, 5))
record(golden, model, "tiled_enc", x=video(9, 40, 32))
os.makedirs("tests/fixtures/vae_cogvideox_tiles", exist_ok=True)
shutil.copy("tests/fixtures/pipe_cogvideox_2b/vae/config.json", "tests/fixtures/vae_cogvideox_tiles/config.json")
with open("tests/fixtures/vae_cogvideox_tiles/weights.txt", "w") as file:
    file.write("../pipe_cogvideox_2b/vae/diffusion_pytorch_model.safetensors\n")
store("tests/fixtures/vae_cogvideox_tiles", golden)
