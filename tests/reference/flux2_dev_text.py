"""Makes tests/fixtures/flux2_dev_text: how FLUX.2-dev asks Mistral, in miniature. A random language model of Mistral's form, the tokenizer of
tests/fixtures/tokenizers/scripts (mistral.json), and the states of three layers for two prompts, in double precision: docs/models.md 5.4 and 5.5.
Padding stands in front, and its rows attend nothing, as PyTorch's attention has it since 2.5 where a mask leaves no key.

Run from the repository root, with the packages tokenizers 0.23.3 and numpy:
    python3 tests/reference/flux2_dev_text.py
"""
import json
import os
import shutil
import struct
import numpy
from tokenizers import Tokenizer

OUT = "tests/fixtures/flux2_dev_text"
SCRIPTS = "tests/fixtures/tokenizers/scripts"
WIDTH, HEADS, PAIRED, HEAD, INNER, LAYERS = 32, 4, 2, 16, 48, 4
STATES, ROWS, THETA, EPS = [1, 2, 3], 224, 1e9, 1e-5
PROMPTS = {"long": "a photo of an astronaut riding a horse on mars, highly detailed", "empty": ""}
SYSTEM = "You are an AI that reasons about image descriptions. You give structured responses focusing on object relationships, object\nattribution and actions without speculation."


def write(path, tensors, kind):
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.astype({"F16": "<f2", "F32": "<f4"}[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def weights(words):
    draw = numpy.random.default_rng(22)
    shapes = {"model.embed_tokens.weight": (words, WIDTH), "model.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": (WIDTH,), at + "post_attention_layernorm.weight": (WIDTH,)}
        shapes |= {at + "self_attn.q_proj.weight": (HEADS * HEAD, WIDTH), at + "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD)}
        shapes |= {at + f"self_attn.{n}_proj.weight": (PAIRED * HEAD, WIDTH) for n in "kv"}
        shapes |= {at + f"mlp.{n}_proj.weight": (INNER, WIDTH) for n in ("gate", "up")} | {at + "mlp.down_proj.weight": (WIDTH, INNER)}
    out = {}
    for name, shape in shapes.items():
        values = draw.standard_normal(shape) * (0.1 if len(shape) == 1 else 0.7 if "embed" in name else 1.5 / shape[1] ** 0.5) + (len(shape) == 1)
        out[name] = values.astype(numpy.float16).astype(numpy.float64)
    return out


def norm(x, weight):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rotate(x):
    half = HEAD // 2
    angle = numpy.arange(len(x))[:, None, None] * THETA ** (-2 * numpy.arange(half) / HEAD)
    a, b = x[..., :half], x[..., half:]
    return numpy.concatenate([a * numpy.cos(angle) - b * numpy.sin(angle), b * numpy.cos(angle) + a * numpy.sin(angle)], -1)


def attend(q, k, v, mask):
    out = numpy.zeros_like(q)
    for head in range(HEADS):
        pair = head * PAIRED // HEADS
        scores = numpy.where(mask, q[:, head] @ k[:, pair].T * HEAD**-0.5, -numpy.inf)
        most = scores.max(-1, keepdims=True)
        share = numpy.exp(scores - numpy.where(numpy.isinf(most), 0, most))
        total = share.sum(-1, keepdims=True)
        out[:, head] = share @ v[:, pair] / numpy.where(total > 0, total, 1)
    return out


def states(w, ids, padding):
    rows = numpy.arange(len(ids))
    mask = (rows[None] <= rows[:, None]) & (rows[None] >= padding)
    h = w["model.embed_tokens.weight"][ids]
    out = [h]
    for i in range(LAYERS):
        get = lambda name: w[f"model.layers.{i}.{name}.weight"]
        n = norm(h, get("input_layernorm"))
        q, k, v = ((n @ get(f"self_attn.{c}_proj").T).reshape(len(ids), -1, HEAD) for c in "qkv")
        h = h + attend(rotate(q), rotate(k), v, mask).reshape(len(ids), -1) @ get("self_attn.o_proj").T
        n = norm(h, get("post_attention_layernorm"))
        gate = n @ get("mlp.gate_proj").T
        h = h + (gate / (1 + numpy.exp(-gate)) * (n @ get("mlp.up_proj").T)) @ get("mlp.down_proj").T
        out.append(h)
    return numpy.concatenate([out[k] for k in STATES], -1)


def main():
    for folder in ("text_encoder", "tokenizer"):
        os.makedirs(f"{OUT}/{folder}", exist_ok=True)
    tokenizer = Tokenizer.from_file(f"{SCRIPTS}/mistral.json")
    pad = tokenizer.token_to_id("<pad>")
    w = weights(tokenizer.get_vocab_size())
    golden = {}
    for name, prompt in PROMPTS.items():
        ids = tokenizer.encode(f"[SYSTEM_PROMPT]{SYSTEM}[/SYSTEM_PROMPT][INST]{prompt}[/INST]").ids
        golden[f"{name}.prompt_embeds"] = states(w, [pad] * (ROWS - len(ids)) + ids, ROWS - len(ids))
        print(name, len(ids), "tokens")
    write(f"{OUT}/golden.safetensors", golden, "F32")
    write(f"{OUT}/text_encoder/model.safetensors", w, "F16")
    shutil.copy(f"{SCRIPTS}/mistral.json", f"{OUT}/tokenizer/tokenizer.json")
    files = {
        "model_index.json": {"_class_name": "Flux2Pipeline", "text_encoder_select_layers": STATES, "text_encoder": ["transformers", "Mistral3ForConditionalGeneration"], "tokenizer": ["transformers", "PixtralProcessor"]},
        "text_encoder/config.json": {"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {"model_type": "mistral", "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": PAIRED, "head_dim": HEAD, "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu"}},
        "tokenizer/tokenizer_config.json": {"model_max_length": 131072, "pad_token": "<pad>", "padding_side": "left"},
    }
    for name, value in files.items():
        with open(f"{OUT}/{name}", "w") as out:
            json.dump(value, out, indent=2)
            out.write("\n")


main()
