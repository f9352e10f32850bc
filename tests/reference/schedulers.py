"""Trajectories of diffusers' schedulers that no other fixture covers: LCM and beta sigmas.

python3 schedulers.py OUT writes one folder each, in the layout of the other scheduler fixtures (see a README there).
Made with diffusers 0.32.2, torch 2.5.1, scipy 1.17.1, safetensors; float32 on the CPU.
"""

import json
import pathlib
import sys

import diffusers
import torch
from diffusers.schedulers import scheduling_lcm
from safetensors.torch import save_file

STABLE_DIFFUSION = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
CASES = {
    "lcm": ("LCMScheduler", 4, {**STABLE_DIFFUSION, "clip_sample": False}),
    "lcm_v_clip": (
        "LCMScheduler",
        7,
        {"beta_schedule": "linear", "prediction_type": "v_prediction", "clip_sample": True, "clip_sample_range": 1.5,
         "original_inference_steps": 40, "timestep_scaling": 5.0},
    ),
    "dpmpp2m_beta": ("DPMSolverMultistepScheduler", 8, {**STABLE_DIFFUSION, "use_beta_sigmas": True}),
    "euler_beta": ("EulerDiscreteScheduler", 6, {**STABLE_DIFFUSION, "use_beta_sigmas": True}),
    "unipc_beta": ("UniPCMultistepScheduler", 8, {**STABLE_DIFFUSION, "use_beta_sigmas": True}),
    "flow_beta": ("FlowMatchEulerDiscreteScheduler", 6, {"shift": 3.0, "use_beta_sigmas": True}),
    "unipc_uncorrected": ("UniPCMultistepScheduler", 7, {"disable_corrector": [0, 3], "solver_order": 3}),
}


def denoiser(x, t):
    """Some deterministic, bounded function of the latent and the time."""
    return torch.tanh(0.7 * x.roll(1, -1) - 0.2 * x) + 0.3 * torch.cos(x + float(t) / 300)


def trajectory(class_name, steps, arguments):
    scheduler = getattr(diffusers, class_name)(**arguments)
    scheduler.set_timesteps(steps)
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(1, 4, 4, 6, generator=generator) * getattr(scheduler, "init_noise_sigma", 1.0)
    drawn = []

    def draw(shape, **_):
        drawn.append(torch.randn(shape, generator=generator))
        return drawn[-1]

    scheduling_lcm.randn_tensor = draw
    out = {"x_init": x.clone(), "tables.run.timesteps": scheduler.timesteps.float()}
    if hasattr(scheduler, "sigmas"):
        out["tables.run.sigmas"] = scheduler.sigmas.float()
    for i, t in enumerate(scheduler.timesteps):
        drawn.clear()
        shown = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
        prediction = denoiser(shown, t)
        out[f"step{i}.t"] = t.float()
        out[f"step{i}.model_input"] = shown.clone()
        out[f"step{i}.model_output"] = prediction
        x = scheduler.step(prediction, t, x).prev_sample
        out[f"step{i}.prev_sample"] = x.clone()
        if drawn:
            out[f"step{i}.noise0"] = drawn[0]
    return scheduler, {name: tensor.clone().contiguous() for name, tensor in out.items()}


def main():
    root = pathlib.Path(sys.argv[1])
    for name, (class_name, steps, arguments) in CASES.items():
        scheduler, tensors = trajectory(class_name, steps, arguments)
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / "golden.safetensors")
        config = {"_class_name": class_name, **scheduler.config}
        (folder / "scheduler_config.json").write_text(json.dumps(config, indent=2) + "\n")
        (folder / "README").write_text(f"{class_name}; {steps} steps. Made by tests/reference/schedulers.py.\n")


main()
