#!/usr/bin/env python3
"""Makes tests/fixtures/kandinsky_i2v: Kandinsky5I2VPipeline of diffusers 0.42.1 in float32 with the weights of pipe_kandinsky_t2v and
the autoencoder of vae_hunyuanvideo, prompts as pipe_kandinsky_t2v has them encoded. Run it in the root of the repository."""
import json
import os

import numpy
import torch
import diffusers.models.transformers.transformer_kandinsky as kandinsky
from diffusers import AutoencoderKLHunyuanVideo, FlowMatchEulerDiscreteScheduler, Kandinsky5I2VPipeline
from PIL import Image
from safetensors.torch import load_file, save_file

SOURCE, FOLDER = "tests/fixtures/pipe_kandinsky_t2v", "tests/fixtures/kandinsky_i2v"
WIDTH, HEIGHT, FRAMES, STEPS, SEED = 48, 32, 25, 3, 7


def main():
    # The original rounds rotated queries and keys to bfloat16, whatever the model's type is; here they stay float32.
    kandinsky.torch = type("torch", (), {**vars(torch), "bfloat16": torch.float32})
    transformer = kandinsky.Kandinsky5Transformer3DModel.from_pretrained(SOURCE + "/transformer", torch_dtype=torch.float32).eval()
    vae = AutoencoderKLHunyuanVideo.from_config(json.load(open("tests/fixtures/vae_hunyuanvideo/config.json"))).eval()
    vae.load_state_dict({k: v.float() for k, v in load_file("tests/fixtures/vae_hunyuanvideo/model.safetensors").items()})
    scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained(SOURCE + "/scheduler")
    pipe = Kandinsky5I2VPipeline(transformer, vae, None, None, None, None, scheduler)
    golden = load_file(SOURCE + "/golden.safetensors")
    y, x, c = numpy.mgrid[0:HEIGHT, 0:WIDTH, 0:3]
    picture = ((x * 5 + y * (3 + c) * 2 + (x * y // 7) * (c + 1)) % 256).astype(numpy.uint8)
    seen = {}

    def look(pipe, step, timestep, tensors):
        seen[step] = tensors["latents"][..., :16].clone()
        return {}

    def texts(name):
        embeds = golden[name + ".prompt_embeds"]
        return embeds, golden[name + ".pooled_prompt_embeds"], torch.tensor([0, embeds.shape[1]], dtype=torch.int32)

    qwen, clip, ends = texts("t2v")
    qwen_2, clip_2, ends_2 = texts("empty")
    wish = dict(image=Image.fromarray(picture), height=HEIGHT, width=WIDTH, num_frames=FRAMES, num_inference_steps=STEPS, guidance_scale=5.0,
                prompt_embeds_qwen=qwen, prompt_embeds_clip=clip, prompt_cu_seqlens=ends, negative_prompt_embeds_qwen=qwen_2,
                negative_prompt_embeds_clip=clip_2, negative_prompt_cu_seqlens=ends_2, negative_prompt="",
                callback_on_step_end=look)
    with torch.no_grad():
        even = pipe(**wish, output_type="latent", generator=torch.Generator().manual_seed(SEED)).frames
        frames = pipe(**wish, output_type="pt", generator=torch.Generator().manual_seed(SEED)).frames[0]
    last = seen[STEPS - 1]
    planes = lambda latents: latents.permute(0, 4, 1, 2, 3).contiguous()
    shown = [0, 3, 24]
    tensors = {"i2v.image0_u8": torch.from_numpy(picture).float(),
               "i2v.step%d.latents" % (STEPS - 1): planes(last), "i2v.frames01": (frames[shown] * 16384).round() / 16384}
    print("moved by", (even - last).abs().max(), "deviations", last[:, :4].std(), last[:, 4:].std(), "means", last[:, :4].mean(), last[:, 4:].mean())
    call = {"prompt": "a photo of an astronaut riding a horse on mars, highly detailed", "negative_prompt": "", "num_inference_steps": STEPS,
            "guidance_scale": 5.0, "height": HEIGHT, "width": WIDTH, "num_frames": FRAMES, "seed": SEED}
    os.makedirs(FOLDER, exist_ok=True)
    with open(FOLDER + "/README", "w") as file:
        file.write("""Kandinsky5I2VPipeline end to end, from a picture to a clip; diffusers 0.42.1, float32, CPU; made by tests/reference/kandinsky_i2v.py.
Transformer and scheduler are those of pipe_kandinsky_t2v, text encoders and tokenizers those of pipe_kandinsky, the autoencoder is vae_hunyuanvideo.
The original rounds rotated queries and keys to bfloat16 whatever the model's type is; here they stay float32.
The noise is the seed's: the clip's first, then the picture's. Latents are stored [B, C, F, h, w], before normalize_first_frame; frames 0, 3 and 24 behind it.
call i2v: %s
Frames are stored with 14 bits behind the point, which compresses: 3e-5 of them.
""" % json.dumps(call))
    save_file(tensors, FOLDER + "/golden.safetensors")


if __name__ == "__main__":
    main()
