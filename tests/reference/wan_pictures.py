#!/usr/bin/env python3
"""Makes tests/fixtures/wan21_i2v: a Wan 2.1 transformer that reads a picture's tokens, of which nobody has published
small results. The formulas are those of diffusers' transformer_wan.py in doubles, without any library; they are tried
on tests/fixtures/wan first, whose results are the original's. Run it in the root of the repository."""
import json
import math
import os
import random
import struct


def read(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        raw = data[entry["data_offsets"][0]:entry["data_offsets"][1]]
        if entry["dtype"] == "BF16":
            values = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
        elif entry["dtype"] == "F32":
            values = list(struct.unpack("<%df" % (len(raw) // 4), raw))
        else:
            values = list(struct.unpack("<%dq" % (len(raw) // 8), raw))
        out[name] = (entry["shape"], values)
    return out


def write(path, tensors, dtype):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        if dtype == "BF16":
            raw = b"".join(struct.pack("<f", v)[2:] for v in values)
        else:
            raw = struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def bf16(value):
    """Cut off: any value that the type has will do."""
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0]


class Model:
    def __init__(self, tensors, heads, layers):
        self.t, self.heads, self.layers = tensors, heads, layers

    def rows(self, name):
        shape, values = self.t[name]
        columns = shape[-1]
        return [values[i:i + columns] for i in range(0, len(values), columns)]

    def vector(self, name):
        return self.t[name][1]

    def linear(self, x, name):
        shape, values = self.t[name + ".weight"]
        columns = len(values) // shape[0]
        weight = [values[i:i + columns] for i in range(0, len(values), columns)]
        bias = self.vector(name + ".bias")
        return [[sum(a * b for a, b in zip(row, w)) + c for w, c in zip(weight, bias)] for row in x]

    def rms(self, x, name, eps=1e-6):
        weight = self.vector(name + ".weight")
        out = []
        for row in x:
            scale = 1 / math.sqrt(sum(v * v for v in row) / len(row) + eps)
            out.append([v * scale * w for v, w in zip(row, weight)])
        return out

    def affine(self, x, name, eps):
        weight, bias = self.vector(name + ".weight"), self.vector(name + ".bias")
        return [[v * w + b for v, w, b in zip(row, weight, bias)] for row in norm(x, eps)]

    def attention(self, q, k, v):
        size = len(q[0]) // self.heads
        out = [[] for _ in q]
        for head in range(self.heads):
            at = slice(head * size, head * size + size)
            keys, values = [row[at] for row in k], [row[at] for row in v]
            for i, row in enumerate(q):
                scores = [sum(a * b for a, b in zip(row[at], key)) / math.sqrt(size) for key in keys]
                most = max(scores)
                weights = [math.exp(s - most) for s in scores]
                total = sum(weights)
                out[i] += [sum(w * value[c] for w, value in zip(weights, values)) / total for c in range(size)]
        return out


def norm(x, eps=1e-6):
    out = []
    for row in x:
        mean = sum(row) / len(row)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + eps)
        out.append([(v - mean) * scale for v in row])
    return out


def mod(x, shift, scale):
    return [[v * (1 + b) + a for v, a, b in zip(row, shift, scale)] for row in norm(x)]


def add(x, y, gate=None):
    return [[a + b * (gate[i] if gate else 1) for i, (a, b) in enumerate(zip(r, s))] for r, s in zip(x, y)]


def each(function, x):
    return [[function(v) for v in row] for row in x]


def silu(v):
    return v / (1 + math.exp(-v))


def gelu_tanh(v):
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))


def gelu_erf(v):
    return 0.5 * v * (1 + math.erf(v / math.sqrt(2)))


def turn(x, heads, grid):
    size = len(x[0]) // heads
    side = size // 6
    parts = [size // 2 - 2 * side, side, side]
    frames, lines, columns = grid
    for token, row in enumerate(x):
        places = [token // (lines * columns), token // columns % lines, token % columns]
        angles = []
        for place, pairs in zip(places, parts):
            angles += [place / 10000 ** (j / pairs) for j in range(pairs)]
        for head in range(heads):
            for j, angle in enumerate(angles):
                i = head * size + 2 * j
                a, b = row[i], row[i + 1]
                row[i] = a * math.cos(angle) - b * math.sin(angle)
                row[i + 1] = b * math.cos(angle) + a * math.sin(angle)


def evaluate(m, latent, shape, timestep, text, picture):
    """latent: flat [C, F, h, w]. Returns the recorded parts."""
    channels, frames, height, width = shape
    grid = (frames, height // 2, width // 2)
    kept = {}
    tokens = []
    for f in range(frames):
        for y in range(grid[1]):
            for x in range(grid[2]):
                tokens.append([latent[((c * frames + f) * height + 2 * y + dy) * width + 2 * x + dx]
                               for c in range(channels) for dy in range(2) for dx in range(2)])
    x = m.linear(tokens, "patch_embedding")
    kept["mid.patch_embedding"] = [row[c] for c in range(len(x[0])) for row in x]
    half = 128
    angles = [timestep * math.exp(-math.log(10000) * i / half) for i in range(half)]
    sinus = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
    time = m.linear([sinus], "condition_embedder.time_embedder.linear_1")
    time = m.linear(each(silu, time), "condition_embedder.time_embedder.linear_2")
    six = m.linear(each(silu, time), "condition_embedder.time_proj")[0]
    kept["mid.condition_embedder.1"] = six
    y = m.linear(text, "condition_embedder.text_embedder.linear_1")
    y = m.linear(each(gelu_tanh, y), "condition_embedder.text_embedder.linear_2")
    z = None
    if picture:
        name = "condition_embedder.image_embedder."
        z = m.linear(m.affine(picture, name + "norm1", 1e-5), name + "ff.net.0.proj")
        z = m.affine(m.linear(each(gelu_erf, z), name + "ff.net.2"), name + "norm2", 1e-5)
    wide = len(x[0])
    for i in range(m.layers):
        name = "blocks.%d." % i
        table = [a + b for a, b in zip(m.vector(name + "scale_shift_table"), six)]
        shift, scale, gate, shift2, scale2, gate2 = [table[j * wide:(j + 1) * wide] for j in range(6)]
        h = mod(x, shift, scale)
        q = m.rms(m.linear(h, name + "attn1.to_q"), name + "attn1.norm_q")
        k = m.rms(m.linear(h, name + "attn1.to_k"), name + "attn1.norm_k")
        turn(q, m.heads, grid)
        turn(k, m.heads, grid)
        h = m.attention(q, k, m.linear(h, name + "attn1.to_v"))
        x = add(x, m.linear(h, name + "attn1.to_out.0"), gate)
        q = m.rms(m.linear(m.affine(x, name + "norm2", 1e-6), name + "attn2.to_q"), name + "attn2.norm_q")
        k = m.rms(m.linear(y, name + "attn2.to_k"), name + "attn2.norm_k")
        h = m.attention(q, k, m.linear(y, name + "attn2.to_v"))
        if z:
            k = m.rms(m.linear(z, name + "attn2.add_k_proj"), name + "attn2.norm_added_k")
            h = add(h, m.attention(q, k, m.linear(z, name + "attn2.add_v_proj")))
        x = add(x, m.linear(h, name + "attn2.to_out.0"))
        h = m.linear(mod(x, shift2, scale2), name + "ffn.net.0.proj")
        x = add(x, m.linear(each(gelu_tanh, h), name + "ffn.net.2"), gate2)
        kept["mid.blocks.%d" % i] = [v for row in x for v in row]
    table = m.vector("scale_shift_table")
    shift, scale = [[a + b for a, b in zip(table[j * wide:(j + 1) * wide], time[0])] for j in range(2)]
    x = m.linear(mod(x, shift, scale), "proj_out")
    kept["mid.proj_out"] = [v for row in x for v in row]
    count = len(x[0]) // 4
    out = [0.0] * (count * frames * height * width)
    for token, row in enumerate(x):
        f, line, column = token // (grid[1] * grid[2]), token // grid[2] % grid[1], token % grid[2]
        for dy in range(2):
            for dx in range(2):
                for c in range(count):
                    to = ((c * frames + f) * height + 2 * line + dy) * width + 2 * column + dx
                    out[to] = row[(dy * 2 + dx) * count + c]
    kept["out"] = out
    return kept


def chunks(values, size):
    return [values[i:i + size] for i in range(0, len(values), size)]


def main():
    weights = read("tests/fixtures/wan/model.safetensors")
    golden = read("tests/fixtures/wan/golden.safetensors")
    shape, latent = golden["case1.in.hidden_states"]
    found = evaluate(Model(weights, 3, 2), latent, shape[1:], golden["case1.in.timestep"][1][0],
                     chunks(golden["case1.in.encoder_hidden_states"][1], 40), None)
    for name, values in found.items():
        wanted = golden["case1." + name][1]
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(values, wanted)) / sum(b * b for b in wanted))
        print("%s: %.2g" % (name, error))
        assert len(values) == len(wanted) and error < 2e-6, name

    random.seed(21)
    wide, columns, own = 72, 20, {}

    def make(name, shape, spread, center=0.0):
        count = 1
        for size in shape:
            count *= size
        own[name] = (shape, [bf16(random.gauss(center, spread)) for _ in range(count)])

    for name, tensor in weights.items():
        if not name.startswith("blocks.1."):
            own[name] = tensor
    make("patch_embedding.weight", [wide, 36, 1, 2, 2], 1 / 12)
    name = "condition_embedder.image_embedder."
    for part, size in (("norm1", columns), ("norm2", wide)):
        make(name + part + ".weight", [size], 0.1, 1.0)
        make(name + part + ".bias", [size], 0.1)
    make(name + "ff.net.0.proj.weight", [columns, columns], 0.3)
    make(name + "ff.net.0.proj.bias", [columns], 0.1)
    make(name + "ff.net.2.weight", [wide, columns], 0.3)
    make(name + "ff.net.2.bias", [wide], 0.1)
    for part in ("k", "v"):
        make("blocks.0.attn2.add_%s_proj.weight" % part, [wide, wide], 0.15)
        make("blocks.0.attn2.add_%s_proj.bias" % part, [wide], 0.1)
    make("blocks.0.attn2.norm_added_k.weight", [wide], 0.2, 1.0)

    tensors = {}
    for case, (frames, height, length, given, timestep) in enumerate(((2, 6, 8, 5, 731.0), (3, 10, 6, 3, 12.5))):
        shape = [36, frames, height, length]
        latent = [bf16(random.gauss(0, 1)) for _ in range(36 * frames * height * length)]
        text = [bf16(random.gauss(0, 0.7)) if i < given * 40 else 0.0 for i in range(5 * 40)]
        picture = [bf16(random.gauss(0, 1)) for _ in range(257 * columns)]
        found = evaluate(Model(own, 3, 1), latent, shape, timestep, chunks(text, 40), chunks(picture, columns))
        before, lines, across = "case%d." % case, height // 2, length // 2
        tokens = frames * lines * across
        shapes = {"mid.patch_embedding": [1, wide, frames, lines, across], "mid.condition_embedder.1": [1, 6 * wide],
                  "mid.blocks.0": [1, tokens, wide], "mid.proj_out": [1, tokens, 64],
                  "out": [1, 16, frames, height, length]}
        tensors[before + "in.hidden_states"] = ([1] + shape, latent)
        tensors[before + "in.encoder_hidden_states"] = ([1, 5, 40], text)
        tensors[before + "in.encoder_hidden_states_image"] = ([1, 257, columns], picture)
        tensors[before + "in.timestep"] = ([1], [timestep])
        for name, values in found.items():
            tensors[before + name] = (shapes[name], values)
    folder = "tests/fixtures/wan21_i2v"
    os.makedirs(folder, exist_ok=True)
    write(folder + "/model.safetensors", own, "BF16")
    write(folder + "/golden.safetensors", tensors, "F32")
    config = json.load(open("tests/fixtures/wan/config.json"))
    config.update(in_channels=36, num_layers=1, image_dim=columns, added_kv_proj_dim=wide)
    with open(folder + "/config.json", "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    with open(folder + "/README", "w") as file:
        file.write("A Wan 2.1 transformer that reads a picture's tokens (encoder_hidden_states_image), 36 channels in.\n"
                   "Case 1 has odd numbers of frames, lines and columns of tokens, and three tokens of text, behind which\n"
                   "rows are zeros.\n"
                   "tests/reference/wan_pictures.py made it with the formulas of diffusers' transformer_wan.py in "
                   "doubles,\nwhich agree with tests/fixtures/wan to 2e-6. Weights are BF16.\n")


main()
