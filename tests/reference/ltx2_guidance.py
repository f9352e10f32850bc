#!/usr/bin/env python3
"""Makes tests/fixtures/pipe_ltx2/guidance.safetensors: the call of golden.safetensors with diffusers' guidance of sound, its
rescaling of both, its further evaluations, and all of these, behind the last step. Texts are those that golden.safetensors has behind the connectors. Run it in the root of
the repository, with diffusers 0.42.1 and torch."""
import torch
from diffusers import (AutoencoderKLLTX2Audio, AutoencoderKLLTX2Video, FlowMatchEulerDiscreteScheduler, LTX2Pipeline,
                       LTX2VideoTransformer3DModel)
from safetensors.torch import load_file, save_file

FOLDER = "tests/fixtures/pipe_ltx2"
RESCALED = {"guidance_rescale": 0.7, "audio_guidance_rescale": 0.7}
TERMS = {"stg_scale": 1.0, "audio_stg_scale": 1.0, "modality_scale": 3.0, "audio_modality_scale": 3.0, "spatio_temporal_guidance_blocks": [1]}
CALLS = {"sound": {}, "rescaled": RESCALED, "terms": TERMS, "all": {**RESCALED, **TERMS}}


class Connectors(torch.nn.Module):
    def forward(self, embeds, mask, **others):
        return golden["connectors.video"], golden["connectors.audio"], torch.zeros(2, 1, 32)


golden = load_file(FOLDER + "/golden.safetensors")
audio = AutoencoderKLLTX2Audio(base_channels=16, output_channels=2, ch_mult=(1, 2, 1), num_res_blocks=1, in_channels=2, resolution=8,
                               latent_channels=8, norm_type="pixel", causality_axis="height", mid_block_add_attention=False,
                               sample_rate=16000, mel_hop_length=160, mel_bins=8)
audio.latents_mean.zero_()
audio.latents_std.fill_(1)
LTX2Pipeline._execution_device = torch.device("cpu")
pipe = LTX2Pipeline(scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(FOLDER + "/scheduler"),
                    vae=AutoencoderKLLTX2Video.from_pretrained(FOLDER + "/vae", torch_dtype=torch.float32), audio_vae=audio,
                    text_encoder=None, tokenizer=None, connectors=Connectors(), vocoder=None,
                    transformer=LTX2VideoTransformer3DModel.from_pretrained(FOLDER + "/transformer", torch_dtype=torch.float32))
pipe._callback_tensor_inputs.append("audio_latents")


def run(sound, **others):
    last = {}

    def look(pipe, step, time, tensors):
        last.update(tensors)
        return {}

    texts = {k + e: v for k in ("prompt_", "negative_prompt_") for e, v in
             (("embeds", torch.zeros(1, 32, 8)), ("attention_mask", torch.ones(1, 32)))}
    wish = dict(height=64, width=96, num_frames=9, frame_rate=24.0, num_inference_steps=3, guidance_scale=3.0, stg_scale=0.0,
                modality_scale=1.0, guidance_rescale=0.0, audio_guidance_scale=sound, audio_stg_scale=0.0, audio_modality_scale=1.0,
                audio_guidance_rescale=0.0, latents=golden["in.latents"], audio_latents=golden["in.audio_latents"], output_type="latent",
                callback_on_step_end=look, callback_on_step_end_tensor_inputs=["latents", "audio_latents"], **texts)
    with torch.no_grad():
        pipe(**{**wish, **others})
    return last["latents"].contiguous(), last["audio_latents"].contiguous()


out = {name: golden[name] for name in ("in.latents", "in.audio_latents")}
known = run(3.0)
print("the recorded call:", (known[0] - golden["step2.latents"]).abs().max(), (known[1] - golden["out.audio_latents"]).abs().max())
for name, call in CALLS.items():
    out[name + ".latents"], out[name + ".audio_latents"] = run(7.0, **call)
    print(name, (out[name + ".latents"] - known[0]).abs().max(), (out[name + ".audio_latents"] - known[1]).abs().max())
save_file(out, FOLDER + "/guidance.safetensors")
