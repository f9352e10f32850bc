"""Makes tests/fixtures/tokenizers/t5_json from tests/fixtures/tokenizers/t5/spiece.model.

Run from the repository root, with the packages tokenizers 0.23.3, sentencepiece 0.2.3 and protobuf:
    python3 tests/reference/tokenizer_json.py

tokenizer.json has the form that transformers' T5Converter writes today, words.json the older one (words split at white space,
no normalizer; the first 400 pieces only). golden.json: per text the ids of both according to tokenizers, and of spiece.model
according to sentencepiece. null: the text holds special pieces, which sentencepiece does not cut out, or a literal U+2581, before
which the older form puts no space.
"""
import base64
import json
import os
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

SPIECE = "tests/fixtures/tokenizers/t5/spiece.model"
OUT = "tests/fixtures/tokenizers/t5_json"

TEXTS = json.load(open("tests/fixtures/tokenizers/t5/golden.json"))["cases"]
TEXTS = [case["text"] for case in TEXTS] + [
    " ", "\t\n\r ", "one\r\ntwo\u3000three\u00a0four\u2003five", "\ufeffmark\u200bjoin\u200dzero\u2060word", "e\u0301 a\u030a o\u0308\u0304 n\u0303",
    "\u1112\u1161\u11ab\u1100\u1173\u11af", "\uff21\uff4c\uff4c \uff11\uff12\uff13 \u32a4 \ufdfa", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽", "ab</s>cd <pad> <unk>ef</s>", "<extra_id_0> and <extra_id_99>the end",
    "</s></s>", "x</s", "\U0001d400\U0001d7d8 \u2460\u00bd\u2122", "\ufffd\ufffe", "日本語のテキスト、句読点。", "\u0001\u0002control\u007f", "tab\tbetween words", "a" * 300,
    "  ▁ ▁▁ lower ▁one", "The quick brown fox jumps over the lazy dog; 0123456789 times?", "קצת עברית וعربي", "ß ẞ ﬀ ǆ İ ı", "☃\u20e3❄︎❤️", "software license license",
]


def special(text):
    return AddedToken(text, special=True, normalized=False)


def new_form(model):
    vocab = [(piece.piece, piece.score) for piece in model.pieces]
    extra = [f"<extra_id_{i}>" for i in range(99, -1, -1)]
    tokenizer = Tokenizer(models.Unigram(vocab + [(text, 0.0) for text in extra], unk_id=2))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
        normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁"),
    ])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return tokenizer, ["<pad>", "</s>", "<unk>"] + extra


def old_form(model):
    vocab = [(piece.piece, piece.score) for piece in model.pieces[:400]]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")])
    return tokenizer, ["<pad>", "</s>", "<unk>"]


def finish(tokenizer, specials, name):
    tokenizer.add_special_tokens([special(text) for text in specials])
    tokenizer.post_processor = processors.TemplateProcessing(single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)])
    tokenizer.save(os.path.join(OUT, name), pretty=False)
    return tokenizer


def main():
    os.makedirs(OUT, exist_ok=True)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(open(SPIECE, "rb").read())
    new = finish(*new_form(model), "tokenizer.json")
    old = finish(*old_form(model), "words.json")
    pieces = sentencepiece.SentencePieceProcessor(model_file=SPIECE)
    cases = []
    for text in TEXTS:
        spiece = None if any(token in text for token in ("</s>", "<pad>", "<unk>")) else pieces.encode(text) + [1]
        words = None if "▁" in text else old.encode(text).ids
        cases.append({"text": text, "tokenizer.json": new.encode(text).ids, "words.json": words, "spiece.model": spiece})
    with open(os.path.join(OUT, "golden.json"), "w") as out:
        json.dump({"cases": cases}, out, indent=0)


main()
