"""Image-to-image and inpainting, as diffusers does both, guidance that ends early, and skip-layer guidance.

python3 start_pictures.py PIXART_SIGMA SD3 FLUX OUT reads three pipeline folders and writes OUT/latents.safetensors: the last
latents of each case (their names are those of tests/job/start.c, which makes the same picture and mask). diffusers has pipelines for
SD3 and FLUX; for PixArt its loop is put together here from the scheduler's add_noise, with SD3's rule for the first timestep.
Made with diffusers 0.32.2, transformers, torch 2.5.1, safetensors; float32 on the CPU.
"""

import pathlib
import sys

import diffusers
import torch
from diffusers.utils.torch_utils import randn_tensor
from safetensors.torch import save_file

WIDTH, HEIGHT, STEPS, SEED = 64, 48, 5, 3
PROMPT, NEGATIVE = "a red heart", "blurry"
# scheduler (None: the folder's own), strength (None: from noise), masked, further arguments of the scheduler
CASES = {
    "dpm": (None, 0.6, False, {}),
    "dpm_mask": (None, 0.8, True, {}),
    "unipc": ("UniPCMultistepScheduler", 0.7, False, {}),
    "euler": ("EulerDiscreteScheduler", 0.6, False, {}),
    "euler_mask": ("EulerDiscreteScheduler", 1.0, True, {}),
    "ddim_mask": ("DDIMScheduler", 0.5, True, {"clip_sample": False}),
    "gate": (None, None, False, {}),
    "ddpm": ("DDPMScheduler", 0.75, False, {"clip_sample": False}),
}
GUIDED = {"gate": 2}  # steps with guidance, of all
SD3_CASES = {"sd3": (0.6, False), "sd3_mask": (0.85, True)}
FLUX_CASES = {"flux": (0.6, False), "flux_mask": (0.8, True)}


def picture():
    """Bytes [height, width, 3], and a mask [height, width] whose edges do not follow the latent's grid."""
    y, x = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    rgb = torch.stack([x * 255 // (WIDTH - 1), y * 255 // (HEIGHT - 1), (x * 7 ^ y * 5) & 255], -1)
    grey = torch.where((x > 13) & (y * 2 < x + 45), 140, 120) + (x + y) % 3
    return rgb.to(torch.uint8), grey.to(torch.uint8)


def first_timesteps(scheduler, strength):
    scheduler.set_timesteps(STEPS)
    if strength is None:
        return scheduler.timesteps
    begin = int(max(STEPS - min(STEPS * strength, STEPS), 0))
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(begin)
    return scheduler.timesteps[begin:]


def predict(pipe, latents, t, text, scale):
    embeds, mask, negative, negative_mask = text
    shown = pipe.scheduler.scale_model_input(torch.cat([latents] * 2), t)
    out = pipe.transformer(
        shown,
        encoder_hidden_states=torch.cat([negative, embeds]),
        encoder_attention_mask=torch.cat([negative_mask, mask]),
        timestep=t.expand(2),
        added_cond_kwargs={"resolution": None, "aspect_ratio": None},
        return_dict=False,
    )[0].chunk(2, dim=1)[0]
    unconditional, conditional = out.chunk(2)
    return unconditional + scale * (conditional - unconditional)


@torch.no_grad()
def pixart(pipe, text, image, keep, case, guided):
    class_name, strength, masked, arguments = case
    if class_name:
        pipe.scheduler = getattr(diffusers, class_name).from_config(pipe.scheduler.config, **arguments)
    generator = torch.Generator().manual_seed(SEED)
    shape = (1, 4, HEIGHT // 8, WIDTH // 8)
    if strength is not None:
        x0 = pipe.vae.encode(image).latent_dist.sample(generator) * pipe.vae.config.scaling_factor
    noise = randn_tensor(shape, generator=generator)
    timesteps = first_timesteps(pipe.scheduler, strength)
    latents = noise if strength is None else pipe.scheduler.add_noise(x0, noise, timesteps[:1])
    for i, t in enumerate(timesteps):
        extra = {"generator": generator} if class_name in ("DDPMScheduler", "DDIMScheduler") else {}
        prediction = predict(pipe, latents, t, text, 4.5 if i < guided else 1.0)
        latents = pipe.scheduler.step(prediction, t, latents, **extra).prev_sample
        if masked:
            kept = pipe.scheduler.add_noise(x0, noise, timesteps[i + 1 : i + 2]) if i + 1 < len(timesteps) else x0
            latents = (1 - keep) * kept + keep * latents
    return latents


def main():
    out = {}
    rgb, grey = picture()
    image = rgb.permute(2, 0, 1)[None].float() / 255 * 2 - 1
    keep = (grey[None, None].float() / 255 >= 0.5).float()
    keep = torch.nn.functional.interpolate(keep, size=(HEIGHT // 8, WIDTH // 8))
    for name, case in CASES.items():
        pipe = diffusers.PixArtSigmaPipeline.from_pretrained(sys.argv[1])
        text = pipe.encode_prompt(PROMPT, True, NEGATIVE, max_sequence_length=24, clean_caption=False)
        out[name] = pixart(pipe, text, image, keep, case, GUIDED.get(name, STEPS))
    for name, (strength, masked) in SD3_CASES.items():
        kind = diffusers.StableDiffusion3InpaintPipeline if masked else diffusers.StableDiffusion3Img2ImgPipeline
        pipe = kind.from_pretrained(sys.argv[2])
        arguments = {"mask_image": grey[None, None].float() / 255} if masked else {}
        out[name] = pipe(
            PROMPT, negative_prompt=NEGATIVE, image=image, strength=strength, num_inference_steps=STEPS,
            guidance_scale=5.0, max_sequence_length=24, generator=torch.Generator().manual_seed(SEED),
            width=WIDTH, height=HEIGHT, output_type="latent", return_dict=False, **arguments,
        )[0]
    pipe = diffusers.StableDiffusion3Pipeline.from_pretrained(sys.argv[2])
    out["sd3_skip"] = pipe(
        PROMPT, negative_prompt=NEGATIVE, num_inference_steps=STEPS, guidance_scale=5.0, max_sequence_length=24,
        width=WIDTH, height=HEIGHT, generator=torch.Generator().manual_seed(SEED), output_type="latent",
        return_dict=False, skip_guidance_layers=[1], skip_layer_guidance_scale=2.8, skip_layer_guidance_stop=0.5,
    )[0]
    for name, (strength, masked) in FLUX_CASES.items():
        kind = diffusers.FluxInpaintPipeline if masked else diffusers.FluxImg2ImgPipeline
        pipe = kind.from_pretrained(sys.argv[3])
        arguments = {"mask_image": grey[None, None].float() / 255} if masked else {}
        packed = pipe(
            PROMPT, image=image, strength=strength, num_inference_steps=STEPS, guidance_scale=3.5,
            max_sequence_length=24, generator=torch.Generator().manual_seed(SEED), width=WIDTH, height=HEIGHT,
            output_type="latent", return_dict=False, **arguments,
        )[0]
        out[name] = pipe._unpack_latents(packed, HEIGHT, WIDTH, pipe.vae_scale_factor)
    folder = pathlib.Path(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in out.items()}, folder / "latents.safetensors")


main()
