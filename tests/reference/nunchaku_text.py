"""Makes tests/fixtures/nunchaku/text.safetensors: layers of a text encoder as nunchaku's own packer writes them, beside the integers, scales and zeros
that went in. The integers are packed a second time by llm-awq, from which nunchaku has its kernels: the bytes must be the same.

Run from the repository root, with numpy and torch, and checkouts of nunchaku-tech/nunchaku and mit-han-lab/llm-awq:
    python3 tests/reference/nunchaku_text.py NUNCHAKU/nunchaku/models/text_encoders/tinychat_utils.py LLM-AWQ/awq/quantize/qmodule.py
"""
import ast
import json
import struct
import sys

import numpy as np
import torch

OUT = "tests/fixtures/nunchaku/text.safetensors"
GROUP = 128
LAYERS = {  # rows and columns: more rows than are read together, three groups and nine, which become 8 and 16
    "encoder.block.0.layer.0.SelfAttention.q": (136, 128, torch.float16),
    "encoder.block.0.layer.1.DenseReluDense.wi_0": (24, 384, torch.bfloat16),
    "encoder.block.0.layer.1.DenseReluDense.wo": (8, 1152, torch.float16),
}
NAMES = {torch.float16: "F16", torch.bfloat16: "BF16", torch.int16: "I16", torch.int8: "I8", torch.float32: "F32"}


def functions(path, *names):
    """Functions of a file, without what else it imports."""
    wanted = [node for node in ast.parse(open(path).read()).body if isinstance(node, ast.FunctionDef) and node.name in names]
    scope = {"torch": torch, "np": np}
    exec(compile(ast.Module(wanted, []), path, "exec"), scope)
    return [scope[name] for name in names]


def save(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = value.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    _, _, _, convert = functions(sys.argv[1], "ceil_divide", "ceil_num_groups", "pack_w4", "convert_to_tinychat_w4x16y16_linear_weight")
    (pack_intweight,) = functions(sys.argv[2], "pack_intweight")
    torch.manual_seed(19)
    out = {"shared.weight": torch.randn(4, 8)}
    for name, (rows, columns, dtype) in LAYERS.items():
        q = torch.randint(0, 16, (rows, columns))
        scales = (torch.rand(rows, columns // GROUP) * 0.3 + 1e-3).to(dtype)
        zeros = (torch.rand(rows, columns // GROUP) * 15).to(dtype).float() * scales.float()
        zeros = zeros.to(dtype)
        wide = lambda values: values.float().repeat_interleave(GROUP, 1)
        weight = (q * wide(scales) - wide(zeros)).to(dtype)  # rounding moves it by less than half a step
        packed, scale, zero = convert(weight, scales, zeros, GROUP)
        assert torch.equal(packed, pack_intweight(q, 4, 64)), name
        out[name + ".qweight"], out[name + ".scales"], out[name + ".scaled_zeros"] = packed, scale, zero
        out[name + ".plain.q"], out[name + ".plain.scales"] = q.to(torch.int8), scales
        out[name + ".plain.zeros"] = zeros
    save(OUT, out)
