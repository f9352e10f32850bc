"""Numbers of test_recorded and test_shapes in tests/sample/sample.c: ComfyUI's own functions on one number that a toy
model denoises, and its schedules and RES4LYF's.

python3 k_samplers.py COMFYUI RES4LYF, two checkouts. Made with ComfyUI of 3 July 2026, RES4LYF of 17 July 2026, torch
2.15.0, float64 on the CPU.
"""

import ast
import math
import pathlib
import sys
import types

import torch


class Flow:
    """A model of flows whose shift is 3, as comfy.model_sampling.CONST."""

    def percent_to_sigma(self, percent):
        return 3 * (1 - percent) / (1 + 2 * (1 - percent))


def functions_of(path, names, known):
    """The functions of a file alone, without what the file imports."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(tree, str(path), "exec"), known)
    return types.SimpleNamespace(**{name: known[name] for name in names})


def denoise(x, sigma):
    return torch.tanh(0.7 * x) + 0.3 * torch.cos(x + sigma)


def sigmas_of_betas(steps):
    """Those of diffusers' EulerDiscreteScheduler with its own betas, and 0 behind them."""
    alphas = torch.cumprod(1 - torch.linspace(0.0001, 0.02, 1000), dim=0).double()
    training = ((1 - alphas) / alphas).sqrt().float().double()
    times = torch.linspace(999, 0, steps, dtype=torch.float64).float().double()
    below = times.floor().long()
    above = (below + 1).clamp(max=999)
    part = times - below
    return torch.cat([training[below] * (1 - part) + training[above] * part, torch.zeros(1, dtype=torch.float64)])


def main():
    comfyui, res4lyf = map(pathlib.Path, sys.argv[1:3])
    model_sampling = types.SimpleNamespace(CONST=Flow)
    known = {"torch": torch, "math": math, "partial": __import__("functools").partial, "trange": lambda n, disable: range(n),
             "comfy": types.SimpleNamespace(model_sampling=model_sampling, utils=types.SimpleNamespace(append_dims=lambda x, n: x)),
             "utils": types.SimpleNamespace(append_dims=lambda x, n: x)}
    k = functions_of(comfyui / "comfy/k_diffusion/sampling.py",
                     ["to_d", "get_ancestral_step", "default_noise_sampler", "sigma_to_half_log_snr", "half_log_snr_to_sigma",
                      "offset_first_sigma_for_snr", "ei_h_phi_1", "ei_h_phi_2", "res_multistep", "sample_res_multistep",
                      "sample_res_multistep_ancestral", "sample_gradient_estimation", "sample_er_sde", "sample_seeds_2"], known)
    sigmas = {False: sigmas_of_betas(6),
              True: torch.tensor([3 * t / (1 + 2 * t) for t in [i / 6 for i in range(6, -1, -1)]], dtype=torch.float64)}
    cases = {"res-multistep": (k.sample_res_multistep, {}), "res-multistep-a": (k.sample_res_multistep_ancestral, {}),
             "res-2s": (k.sample_seeds_2, {"eta": 0.0, "solver_type": "phi_2"}), "er-sde": (k.sample_er_sde, {}),
             "gradient-estimation": (k.sample_gradient_estimation, {})}
    for name, (sample, arguments) in cases.items():
        for flow in (False, True):
            if flow and name in ("res-multistep-a", "res-2s"):
                continue  # dit.h scales ancestral steps of flows, and RES takes the logarithm of sigma in flows, too
            sampling = Flow() if flow else None
            model = lambda x, sigma, **_: denoise(x, sigma)
            model.inner_model = types.SimpleNamespace(model_patcher=types.SimpleNamespace(get_model_object=lambda _: sampling))
            drawn = iter(range(1, 100))
            noise = lambda sigma, sigma_next: torch.sin(torch.tensor([float(next(drawn))], dtype=torch.float64))
            seen = []
            if name != "gradient-estimation":
                arguments = {**arguments, "noise_sampler": noise}
            start = torch.tensor([0.7 if flow else 0.7 * float(sigmas[False][0])], dtype=torch.float64)
            end = sample(model, start, sigmas[flow], callback=lambda state: seen.append(float(state["x"])), **arguments)
            print(f'{{"{name}", {"true" if flow else "false"}, {{{", ".join("%.9g" % x for x in seen[1:] + [float(end)])}}}}},')
    schedules = functions_of(comfyui / "comfy/samplers.py", ["linear_quadratic_schedule", "kl_optimal_scheduler"], known)
    tangent = functions_of(res4lyf / "sigmas.py", ["get_bong_tangent_sigmas", "bong_tangent_scheduler"],
                           {**known, "pi": math.pi, "atan": math.atan})
    highest = types.SimpleNamespace(sigma_max=torch.tensor(1.0))
    for steps in (2, 3, 7, 12):
        rows = [schedules.kl_optimal_scheduler(steps, 0.25, 1.0), tangent.bong_tangent_scheduler(highest, steps),
                schedules.linear_quadratic_schedule(highest, steps)]
        for name, row in zip(("kl-optimal", "bong-tangent", "linear-quadratic"), rows):
            print(f'{{"{name}", {steps}, {{{", ".join("%.7g" % x for x in row[:-1].tolist())}}}}},')


main()
