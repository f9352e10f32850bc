"""Makes tests/fixtures/small_floats: NVFP4 as ggml holds it, with the values that the package gguf decodes, and as ComfyUI's files hold it, with the
values of its definition in double precision.

Run from the repository root, with numpy and gguf:
    python3 tests/reference/small_floats.py
"""
import json
import struct

import gguf
import numpy as np
from gguf import quants

OUT = "tests/fixtures/small_floats"
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    return np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent.astype(float) - 7))


def blocked(scales):
    """[rows, groups] in blocks of 128 x 4: of such a block 32 rows stand one behind the other, each with four rows' four scales."""
    rows, groups = scales.shape
    tall, wide = -(-rows // 128), -(-groups // 4)
    out = np.zeros((tall * 128, wide * 4), np.uint8)
    out[:rows, :groups] = scales
    return out.reshape(tall, 4, 32, wide, 4).transpose(0, 3, 2, 1, 4).reshape(tall * 128, wide * 4)


def save(path, tensors):
    header, data = {}, b""
    for name, (kind, value) in tensors.items():
        value = np.ascontiguousarray(value)
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    random = np.random.default_rng(5)
    rows, columns, factor = 150, 128, np.float32(3.1e-4)
    codes = random.integers(0, 16, (rows, columns)).astype(np.uint8)
    scales = random.integers(0, 127, (rows, columns // 16)).astype(np.uint8)
    values = E2M1[codes] * np.repeat(e4m3(scales), 16, axis=1)
    described = np.frombuffer(b'{"format": "nvfp4"}', np.uint8)
    save(OUT + "/comfy.safetensors", {
        "m.weight": ("U8", codes[:, 0::2] << 4 | codes[:, 1::2]),
        "m.weight_scale": ("F8_E4M3", blocked(scales)),
        "m.weight_scale_2": ("F32", np.array(factor)),
        "m.comfy_quant": ("U8", described),
        "values": ("F32", (values * float(factor)).astype(np.float32)),
    })
    blocks = random.integers(0, 256, (4, 8 * 36)).astype(np.uint8)
    blocks.reshape(-1, 36)[:, :4] &= 127  # the sign of a scale is of no account
    writer = gguf.GGUFWriter(OUT + "/ggml.gguf", "none")
    writer.add_tensor("weight", blocks, raw_dtype=gguf.GGMLQuantizationType.NVFP4)
    writer.add_tensor("values", quants.dequantize(blocks, gguf.GGMLQuantizationType.NVFP4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
