"""Adds pictures and sound to tests/fixtures/pipe_minimax_h3: the encoder of vae/ with random weights, beside the decoder that is there, audio_vae/ without
its encoder, and pictures.safetensors, what diffusers' MiniMaxH3Blocks make of pictures with the transformer that is there, in float32:

    first, last     [h, w, 3] bytes, pictures of the clip's size
    encode.wide, encode.out   [20, 32, 3] bytes, and the moments [2 * C, h, w] that the encoder says of it in tiles of 16 pixels that overlap by 4
    fl, first_only, last_only    clips of both pictures, of the first and of the last alone, by seed 5: latents [C, F, h, w] behind the last step; of fl
                    also those of its sound [2 * tokens, C], and of its pictures [C, 2, h, w] before noise comes to them
    fl.out.*        frames fl.frames of the clip [frames, 3, h, w], and its sound [2, samples]

Text encoder and tokenizer are those of pipe_krea2, whose last state is read without the norm. Weights of the encoders are few different values, which
compress. Run from the repository root, with diffusers 0.42.1, transformers 5.24.0, torchvision and torch:
    python3 tests/reference/minimax.py
"""
import json
import math
import os

import numpy as np
import torch
from diffusers import (AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Scheduler, MiniMaxH3Transformer3DModel)
from diffusers.modular_pipelines.minimax_h3 import MiniMaxH3Blocks, MiniMaxH3ModularPipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, Qwen2VLImageProcessor, Qwen3VLModel, Qwen3VLProcessor, Qwen3VLVideoProcessor

FOLDER = "tests/fixtures/pipe_minimax_h3/"
TEXT = "tests/fixtures/pipe_krea2/"
LAYERS = 13
AUDIO = dict(encoder_dim=4, encoder_rates=(5, 2), latent_dim=40, latent_channels=20, num_attention_heads=2, decoder_dim=16, decoder_rates=(5, 2),
             decoder_kernel_sizes=(9, 4), resblock_kernel_sizes=(3, 7), resblock_dilation_sizes=((1, 3, 5), (1, 3, 5)), sampling_rate=400, latents_mean=[0.1 * (i % 5 - 2) for i in range(20)],
             latents_std=[0.8 + 0.1 * (i % 4) for i in range(20)])


def coarse(shape, deviation):
    step = 2.0 ** math.floor(math.log2(deviation))
    return (torch.randn(shape) * deviation / step).round().clamp(-3, 3) * step


def fill(state, only):
    for name, value in state.items():
        if not name.startswith(only) or name.endswith("filter"):
            continue
        if "norm" in name and name.endswith("weight"):
            state[name] = 1 + coarse(value.shape, 0.2)
        elif name.endswith("weight_g"):
            state[name] = (0.1 if "conv_post" in name else 0.5 if "convs2" in name else 1) * (1 + coarse(value.shape, 0.2).abs())
        elif value.dim() > 1:
            state[name] = coarse(value.shape, 1 / math.sqrt(value[0].numel()))
        else:
            state[name] = coarse(value.shape, 0.2)
    return state


def picture(width, height, seed):
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 90 * np.sin(x * random.uniform(0.1, 0.5) + y * random.uniform(-0.4, 0.4) + random.uniform(0, 6)) for _ in range(3)]
    return Image.fromarray(np.stack(waves, -1).clip(0, 255).astype(np.uint8))


def make_vae():
    with open(FOLDER + "vae/config.json") as file:
        config = json.load(file)
    config.update(block_out_channels=[8, 12], spatial_downsample_factors=[2, 1], temporal_downsample_factors=[4, 1])
    with open(FOLDER + "vae/config.json", "w") as file:
        json.dump(config, file, indent=2)
    vae = AutoencoderKLMiniMaxH3.from_config(config)
    path = FOLDER + "vae/diffusion_pytorch_model.safetensors"
    state = fill(vae.state_dict(), ("encoder.", "quant_conv."))
    state.update({k: v for k, v in load_file(path).items() if not k.startswith(("encoder.", "quant_conv."))})
    vae.load_state_dict(state)
    save_file({k: v.contiguous() for k, v in state.items()}, path, metadata={"format": "pt"})
    return vae.eval()


def make_audio():
    vae = AutoencoderKLMiniMaxH3Audio(**AUDIO)
    vae.load_state_dict(fill(vae.state_dict(), ""))
    os.makedirs(FOLDER + "audio_vae", exist_ok=True)
    vae.save_config(FOLDER + "audio_vae")
    state = {k: v.contiguous() for k, v in vae.state_dict().items() if k.startswith(("decoder.", "dec_in_proj."))}
    save_file(state, FOLDER + "audio_vae/diffusion_pytorch_model.safetensors", metadata={"format": "pt"})
    return vae.eval()


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Qwen3VLModel.from_pretrained(TEXT + "text_encoder", dtype=torch.float32)
        self.model.language_model.norm = torch.nn.Identity()
        self.config = self.model.config
        self.config.text_config.num_hidden_layers = LAYERS + 1 # as if there were one more, which is what the step asks for

    dtype = torch.float32


MiniMaxH3ModularPipeline.text_encoder_layer = LAYERS
MiniMaxH3ModularPipeline.min_duration = 0.0
MiniMaxH3ModularPipeline._execution_device = torch.device("cpu")

torch.manual_seed(11)
vae, audio = make_vae(), make_audio()
tokenizer = AutoTokenizer.from_pretrained(TEXT + "tokenizer")
encoder = Encoder()
size = {"shortest_edge": 65536, "longest_edge": 16777216}
half = [0.5, 0.5, 0.5]
images = Qwen2VLImageProcessor(patch_size=16, temporal_patch_size=2, merge_size=2, size=size, image_mean=half, image_std=half)
processor = Qwen3VLProcessor(image_processor=images, tokenizer=tokenizer, video_processor=Qwen3VLVideoProcessor())
pipe = MiniMaxH3Blocks().init_pipeline()
pipe.update_components(transformer=MiniMaxH3Transformer3DModel.from_pretrained(FOLDER + "transformer").eval(), vae=vae, audio_vae=audio,
                       text_encoder=encoder, tokenizer=tokenizer, processor=processor, scheduler=MiniMaxH3Scheduler(12.0),
                       audio_scheduler=MiniMaxH3Scheduler(3.0))

first, last, wide = picture(20, 12, 1), picture(20, 12, 2), picture(32, 20, 3)
out = {"first": torch.from_numpy(np.array(first)), "last": torch.from_numpy(np.array(last)), "encode.wide": torch.from_numpy(np.array(wide))}
mean, deviation = (torch.tensor(v).view(1, 3, 1, 1, 1) for v in (pipe.pixel_mean, pipe.pixel_std))
vae.enable_tiling(16, 16, 4, 4)
with torch.no_grad():
    pixels = (torch.from_numpy(np.array(wide)).permute(2, 0, 1)[None, :, None] / 255.0 - mean) / deviation
    out["encode.out"] = vae._encode(pixels)[0, :, 0]
vae.enable_tiling(256, 256, 64, 64)

kept = {}
for scheduler, name in ((pipe.scheduler, "latents"), (pipe.audio_scheduler, "sound")):
    def step(velocity, time, sample, scheduler=scheduler, name=name, plain=scheduler.step, **kwargs):
        result = plain(velocity, time, sample, **kwargs)
        kept.setdefault(name, [sample.clone()]).append(result[0].clone())
        return result
    scheduler.step = step


def planes(rows):
    return rows.reshape(7, 3, 5, 8, 2, 2).permute(3, 0, 1, 4, 2, 5).reshape(8, 7, 6, 10).contiguous()


CALL = dict(prompt="a photo of an astronaut riding a horse on mars, highly detailed", num_inference_steps=4, height=12, width=20, num_frames=22)
for case, given in (("fl", dict(image=first, last_image=last)), ("first_only", dict(image=first)), ("last_only", dict(last_image=last))):
    kept.clear()
    state = pipe(**CALL, **given, generator=torch.Generator().manual_seed(5), output_type="pt")
    if case == "fl":
        out["fl.condition"] = torch.cat([c[0] for c in state.get("condition_latents")], 1)
        video = state.get("videos")[0]
        frames = [0, 17, 21]
        out["fl.frames"] = torch.tensor(frames, dtype=torch.float32)
        out["fl.out.video01"] = (video[frames] * 2**14).round() / 2**14
        out["fl.out.sound"] = state.get("audio")[0]
        print("text", state.get("prompt_embeds").shape, "video", video.shape, "sound", out["fl.out.sound"].shape, out["fl.out.sound"].abs().mean())
        out["fl.sound"] = kept["sound"][3]
    out[f"{case}.latents"] = planes(kept["latents"][3])
save_file({k: v.contiguous() for k, v in out.items()}, FOLDER + "pictures.safetensors")
