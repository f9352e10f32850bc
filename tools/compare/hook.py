"""Writes what the modules of a PyTorch transformer read and return as one safetensors file, for
`build/dit-compare --against FILE`.

    pipe = PixArtSigmaPipeline.from_pretrained(folder)
    with hook.record(pipe.transformer, "dump.safetensors", steps=[0, 1]):
        pipe("fox", num_inference_steps=20, generator=torch.Generator("cpu").manual_seed(42))

A tensor is called call.STEP.MODULE (what the module returns; of several tensors MODULE:0, MODULE:1) or
call.STEP.MODULE:in (its first argument). docs/compare.md tells which op of dit.h each of them is, and what
statistics=True keeps of each instead."""
import contextlib

import torch
from safetensors.torch import save_file


def told(x):
    x, n = x.flatten(), x.numel()
    good = x[x.isfinite()] if x.isfinite().any() else x.new_zeros(1)
    rms, places = good.norm() / good.numel()**0.5, [(k << 16 | k * 40503 & 65535) * n >> 23 for k in range(128)]
    numbers = torch.stack([good.min(), good.max(), good.mean(), rms, good.abs().max(), (~x.isfinite()).sum()])
    return torch.cat([numbers, torch.histc(good / rms.clamp_min(1e-30), 16, -4, 4), x[places]])


@contextlib.contextmanager
def record(model, path, steps=None, only=lambda name: True, statistics=False):
    kept, about, call = {}, {"dit.statistics": "1"} if statistics else {}, [-1]

    def keep(name, x):
        if torch.is_tensor(x) and x.is_floating_point() and x.numel() and (steps is None or call[0] in steps):
            name, x = f"call.{call[0]}.{name}", x.detach().float()
            kept[name] = (told(x) if statistics else x).cpu().contiguous().clone()
            about.update({f"dit.shape.{name}": ",".join(map(str, x.shape))} if statistics else {})

    def after(name, args, result):
        keep(name + ":in", args[0] if args else None)
        for i, x in enumerate(result if isinstance(result, (tuple, list)) else [result]):
            keep(f"{name}:{i}" if isinstance(result, (tuple, list)) else name, x)

    handles = [model.register_forward_pre_hook(lambda *_: call.append(call.pop() + 1))]
    handles += [m.register_forward_hook(lambda _, args, result, name=name: after(name, args, result))
                for name, m in model.named_modules() if name and only(name)]
    try:
        yield kept
    finally:
        [handle.remove() for handle in handles]
        save_file(kept, path, metadata=about)
