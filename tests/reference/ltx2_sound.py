"""Adds the parts that make sound to tests/fixtures/pipe_ltx2 (LTX-2.3) and pipe_ltx2_0 (LTX-2): audio_vae and vocoder in miniature with random
weights, and sound.safetensors, what diffusers makes with them in float32:

    tokens    [tokens, channels] as the sampler leaves them
    spectrogram, samples   [1, 2, moments, bands] and [1, 2, samples] of these
    out       [1, 2, samples], the sound of golden.safetensors' out.audio_latents

Weights are few different values, which compress. Run from the repository root, with diffusers 0.42.1 and torch:
    python3 tests/reference/ltx2_sound.py
"""
import json
import math
import os

import torch
from diffusers import AutoencoderKLLTX2Audio
from diffusers.pipelines.ltx2 import LTX2Vocoder
from diffusers.pipelines.ltx2.vocoder import LTX2VocoderWithBWE
from safetensors.torch import load_file, save_file

AUDIO = dict(base_channels=16, output_channels=2, ch_mult=(1, 2, 1), num_res_blocks=1, in_channels=2, resolution=8, latent_channels=8,
             norm_type="pixel", causality_axis="height", mid_block_add_attention=False, sample_rate=16000, mel_hop_length=160, mel_bins=8)
NETS = dict(resnet_kernel_sizes=[3, 7, 11], resnet_dilations=[[1, 3, 5]] * 3)
FIRST = dict(in_channels=16, hidden_channels=32, upsample_kernel_sizes=[16, 15, 8], upsample_factors=[6, 5, 2], output_sampling_rate=24000, **NETS)
SECOND = dict(in_channels=16, hidden_channels=16, upsample_kernel_sizes=[11, 4], upsample_factors=[5, 2], bwe_in_channels=16,
              bwe_hidden_channels=16, bwe_upsample_kernel_sizes=[12, 4], bwe_upsample_factors=[6, 2], filter_length=18, hop_length=4,
              window_length=18, num_mel_channels=8, input_sampling_rate=16000, output_sampling_rate=48000, **NETS,
              **{"bwe_" + k: v for k, v in NETS.items()})


def coarse(shape, deviation):
    step = 2.0 ** math.floor(math.log2(deviation))
    return (torch.randn(shape) * deviation / step).round().clamp(-3, 3) * step


def fill(model):
    state = model.state_dict()
    for name, value in state.items():
        if name.endswith("filter"):
            value = value.to(torch.bfloat16)
        elif name.endswith("forward_basis"):
            n = value.shape[0] // 2
            angle = 2 * math.pi * torch.arange(n)[:, None] * torch.arange(value.shape[2])[None] / value.shape[2]
            value = torch.cat([angle.cos(), -angle.sin()])[:, None] * torch.hann_window(value.shape[2])
        elif name.endswith("mel_basis"):
            value = coarse(value.shape, 0.3).abs()
        elif name.endswith("latents_std"):
            value = 0.5 + coarse(value.shape, 0.5).abs()
        elif value.dim() > 1:
            gain = 0.1 if name.endswith("conv_out.weight") else 0.6 if "convs2" in name else 1
            fan = value[0].numel() if "upsamplers" not in name else value.shape[0] * 2
            value = coarse(value.shape, gain / math.sqrt(fan))
        else:
            value = coarse(value.shape, 0.5 if name.endswith(("alpha", "beta")) else 0.2)
        state[name] = value.to(torch.bfloat16).float()
    model.load_state_dict(state)
    return model.eval()


def save(model, folder, skip):
    os.makedirs(folder, exist_ok=True)
    weights = {k: v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items() if not k.startswith(skip)}
    save_file(weights, folder + "/diffusion_pytorch_model.safetensors")
    with open(folder + "/config.json", "w") as file:
        json.dump({"_class_name": type(model).__name__, "_diffusers_version": "0.42.1",
                   **{k: v for k, v in model.config.items() if not k.startswith("_")}}, file, indent=2)
        file.write("\n")
    os.chmod(folder + "/diffusion_pytorch_model.safetensors", 0o644)


def decode(audio, vocoder, tokens):
    with torch.no_grad():
        latents = tokens[None] * audio.latents_std + audio.latents_mean
        spectrogram = audio.decode(latents.unflatten(2, (-1, 2)).transpose(1, 2)).sample
        return spectrogram, vocoder(spectrogram)


torch.manual_seed(29)
audio = fill(AutoencoderKLLTX2Audio(**AUDIO))
for folder, vocoder in (("tests/fixtures/pipe_ltx2", fill(LTX2VocoderWithBWE(**SECOND))),
                        ("tests/fixtures/pipe_ltx2_0", fill(LTX2Vocoder(**FIRST)))):
    save(audio, folder + "/audio_vae", "encoder.")
    save(vocoder, folder + "/vocoder", "no")
    recorded = load_file(folder + "/golden.safetensors")["out.audio_latents"][0]
    out = {"tokens": torch.randn(7, 16)}
    out["spectrogram"], out["samples"] = decode(audio, vocoder, out["tokens"])
    out["out"] = decode(audio, vocoder, recorded)[1]
    for name, value in out.items():
        print(folder, name, list(value.shape), float(value.abs().mean()), float(value.abs().max()))
    save_file({k: v.contiguous() for k, v in out.items()}, folder + "/sound.safetensors")
    os.chmod(folder + "/sound.safetensors", 0o644)
    index = json.load(open(folder + "/model_index.json"))
    index["audio_vae"] = ["diffusers", "AutoencoderKLLTX2Audio"]
    index["vocoder"] = ["ltx2", type(vocoder).__name__]
    with open(folder + "/model_index.json", "w") as file:
        json.dump(dict(sorted(index.items())), file, indent=2)
