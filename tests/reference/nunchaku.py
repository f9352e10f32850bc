"""Makes tests/fixtures/nunchaku: layers as nunchaku's files have them, and the integers, scales and factors that were packed. The order of every
value is written down here as a formula for its place, so that nothing of the original packers is run.

Run from the repository root, with numpy:
    python3 tests/reference/nunchaku.py
"""
import json
import struct

import numpy as np

OUT = "tests/fixtures/nunchaku"
TILE, GROUP = 128, 64


def up(n, to):
    return -(-n // to) * to


def bfloat(values):
    """The bits of bfloat16, to nearest even, of float32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def floats(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def scale_place(n):
    """Place of row n among the scales of its group, or of value n of a vector: tiles of 128, in which 2, 8 and 16 rows stand together."""
    t = n % TILE
    return n // TILE * TILE + t // 16 * 16 + t % 8 // 2 * 4 + t // 8 % 2 * 2 + t % 2


def pack_vector(values, fill):
    out = np.full(up(len(values), TILE), fill, np.float32)
    for n, value in enumerate(values):
        out[scale_place(n)] = value
    for n in range(len(values), len(out)):
        out[scale_place(n)] = fill
    return bfloat(out)


def pack_scales(scales):
    """[rows, groups] to [groups of whole tiles, rows of whole tiles]; ones fill up."""
    rows, groups = scales.shape
    tall, wide = up(rows, TILE), up(groups, 2)
    out = np.ones(tall * wide, np.float32)
    for n in range(rows):
        for g in range(groups):
            out[n // TILE * wide * TILE + g * TILE + scale_place(n % TILE)] = scales[n, g]
    return bfloat(out).reshape(wide, tall)


def pack_values(q):
    """Integers from -8 to 7 [rows, columns] to bytes [rows, columns / 2] of whole tiles."""
    rows, columns = q.shape
    tall, wide = up(rows, TILE), up(columns, TILE)
    out = np.zeros(tall * wide // 2, np.uint8)
    for n in range(rows):
        for k in range(columns):
            t, w = n % TILE, k % 64
            word = ((((n // TILE * (wide // 64) + k // 64) * 8 + t // 16) * 8 + t % 8) * 4 + w % 32 // 8) * 4 + t // 8 % 2 * 2 + w // 32
            out[word * 4 + w % 8 // 2] |= (int(q[n, k]) & 15) << w % 2 * 4
    return out.view(np.int8).reshape(tall, wide // 2)


def pack_low_rank(values, down):
    """down [rank, columns] to [columns, rank], or up [rows, rank] to itself: tiles of 16 x 16."""
    long = values.shape[1 if down else 0]
    rank = values.shape[0 if down else 1]
    tall = up(long, TILE)
    out = np.zeros(tall * rank, np.float32)
    for i in range(long):
        for r in range(rank):
            n, k = (r % 16, i % 16) if down else (i % 16, r % 16)
            tile = i // 16 * (rank // 16) + r // 16
            out[tile * 256 + (n % 8 * 4 + k % 8 // 2) * 8 + n // 8 * 4 + k // 8 * 2 + k % 2] = values[r, i] if down else values[i, r]
    return bfloat(out).reshape(tall, rank)


def pack_awq(q):
    """Integers from 0 to 15 [rows, columns] to words of 32 bits [rows / 4, columns / 2]."""
    rows, columns = q.shape
    out = np.zeros(rows * columns // 4, np.uint16)
    for n in range(rows):
        for k in range(columns):
            word = ((n // 4 * (columns // 64) + k // 64) * 4 + n % 4) * 16 + k % 64 // 32 * 8 + k % 8
            out[word] |= int(q[n, k]) << k % 32 // 8 * 4
    return out.view(np.int32).reshape(rows // 4, columns // 2)


def save(path, tensors):
    names = {"float32": "F32", "uint16": "BF16", "int8": "I8", "int32": "I32"}
    header, data = {}, b""
    for name, value in tensors.items():
        value = np.ascontiguousarray(value)
        header[name] = {"dtype": names[value.dtype.name], "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def rounded(values):
    return floats(bfloat(values))


if __name__ == "__main__":
    random = np.random.default_rng(4)
    packed, plain = {}, {}

    def layer(name, rows, columns, rank, names=("smooth", "lora_down", "lora_up")):
        q = random.integers(-8, 8, (rows, columns)).astype(np.int8)
        scales = rounded(random.uniform(1e-3, 0.3, (rows, columns // GROUP)))
        smooth = rounded(random.uniform(0.25, 4, columns))
        bias = rounded(random.normal(size=rows))
        packed[name + ".qweight"], packed[name + ".wscales"] = pack_values(q), pack_scales(scales)
        packed[name + ".bias"], packed[name + "." + names[0]] = pack_vector(bias, 1), pack_vector(smooth, 1)
        packed[name + "." + names[0] + "_orig"] = pack_vector(smooth, 1)
        plain[name + ".q"], plain[name + ".scales"], plain[name + ".smooth"], plain[name + ".bias"] = q, bfloat(scales), bfloat(smooth), bfloat(bias)
        if rank:
            down, up_ = rounded(random.normal(size=(rank, columns))), rounded(random.normal(size=(rows, rank)))
            packed[name + "." + names[1]], packed[name + "." + names[2]] = pack_low_rank(down, True), pack_low_rank(up_, False)
            plain[name + ".down"], plain[name + ".up"] = bfloat(down), bfloat(up_)

    def modulation(name, rows, columns):
        q = random.integers(0, 16, (rows, columns)).astype(np.int8)
        scales = rounded(random.uniform(1e-3, 0.3, (rows, columns // GROUP)))
        zeros = rounded(-7 * scales)
        bias = rounded(random.normal(size=rows))
        groups = up(up(columns // GROUP, 8) // 8, 2) * 8
        tall = np.zeros((2, groups, rows), np.float32)
        tall[0, : scales.shape[1]], tall[1, : scales.shape[1]] = scales.T, zeros.T
        packed[name + ".qweight"], packed[name + ".wscales"], packed[name + ".wzeros"] = pack_awq(q), bfloat(tall[0]), bfloat(tall[1])
        packed[name + ".bias"] = bfloat(bias)
        plain[name + ".q"], plain[name + ".scales"], plain[name + ".zeros"], plain[name + ".bias"] = q, bfloat(scales), bfloat(zeros), bfloat(bias)

    packed["x_embedder.weight"] = np.zeros((64, 4), np.float32)
    packed["transformer_blocks.0.norm_q.weight"] = np.ones(16, np.float32)
    layer("transformer_blocks.0.qkv_proj", 192, 64, 16)
    modulation("transformer_blocks.0.norm1.linear", 384, 64)
    layer("single_transformer_blocks.0.out_proj", 64, 64, 16, ("smooth_factor", "proj_down", "proj_up"))
    layer("single_transformer_blocks.0.mlp_fc2", 64, 256, 16)
    save(OUT + "/packed.safetensors", packed)
    save(OUT + "/plain.safetensors", plain)
