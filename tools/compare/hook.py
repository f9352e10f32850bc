"""Writes what the modules of a PyTorch transformer read and return as one safetensors file, for
`build/dit-compare --against FILE`.

    pipe = PixArtSigmaPipeline.from_pretrained(folder)
    with hook.record(pipe.transformer, "dump.safetensors", steps=[0, 1]):
        pipe("fox", num_inference_steps=20, generator=torch.Generator("cpu").manual_seed(42))

A tensor is called call.STEP.MODULE (what the module returns; of several tensors MODULE:0, MODULE:1) or
call.STEP.MODULE:in (its first argument). docs/compare.md tells which op of dit.h each of them is."""
import contextlib

import torch
from safetensors.torch import save_file


@contextlib.contextmanager
def record(model, path, steps=None, only=lambda name: True):
    kept, call = {}, [-1]

    def keep(name, value):
        if torch.is_tensor(value) and value.is_floating_point() and (steps is None or call[0] in steps):
            kept[f"call.{call[0]}.{name}"] = value.detach().float().cpu().contiguous().clone()

    def after(name):
        def hook(module, args, result):
            keep(name + ":in", args[0] if args else None)
            for i, value in enumerate(result if isinstance(result, (tuple, list)) else [result]):
                keep(f"{name}:{i}" if isinstance(result, (tuple, list)) else name, value)
        return hook

    def begin(module, args):
        call[0] += 1

    handles = [model.register_forward_pre_hook(begin)]
    handles += [m.register_forward_hook(after(name)) for name, m in model.named_modules() if name and only(name)]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()
        save_file(kept, path)
