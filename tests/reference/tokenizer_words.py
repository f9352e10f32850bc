"""Makes tests/fixtures/tokenizers/clip_json, bert_json and unicode.json.

Run from the repository root, with the packages tokenizers 0.23.3 and unicodedata2 18.0.0 (and Python 3.11, whose str.lower knows
Unicode 14, as src/text/unicode_tables.h does):
    python3 tests/reference/tokenizer_words.py

tokenizer.json: CLIP's and BERT's, of the vocabularies in tests/fixtures/tokenizers/clip and bert, in the form that transformers'
converters write. golden.json: per text the ids according to tokenizers. unicode.json: per step of a normaliser the FNV-1a hash of
what it makes of every code, and of every code's canonical decomposition, with ! behind each.
"""
import json
import os
import unicodedata2 as unicode
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

FIXTURES = "tests/fixtures/tokenizers"
TEXTS = [case["text"] for case in json.load(open(f"{FIXTURES}/clip/golden.json"))["cases"]] + [
    " ", "\t\n\r ", "one\r\ntwo\u3000three\u00a0four\u2003five\u2028six", "e\u0301 a\u030a o\u0308\u0304 n\u0303 \u0344 q\u0323\u0307 q\u0307\u0323",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한글", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽", "a<|endoftext|>b <|startoftext|>", "[SEP] [MASK]x [UNK] [pad]", "日本語のテキスト、句読点。", "tab\tbetween words",
    "a" * 130, "it's 'twas y'all'd've I'LL o'clock 's ''s", "rock'n'roll '''", "x²+y₂ ½ Ⅳ ٣ 1234567890", "Ünï̈cödé ǅ Ǆ ß ẞ ſ K Å İI ıi", "ΟΔΥΣΣΕΥΣ Σ ΑΣ ΑΣΑ σΣ.", "קצת עברית וعربي हिन्दी ไทย",
    "«quotes» “curly” ‘single’ – — … ¿? ¡! § ¶ † ‡ • №", "foo_bar-baz@example.com/path?x=1&y=2#z $5.00 100% ~a~ `b` ^c^ |d| {e} <f> a=b+c", "software license licenses licensing", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬁ ﬀ ＡＢＣ １２３",
    "豈更車 \uf900\ufa10 \U0002f800", "☃\u20e3❄︎❤️", "\u0958 \u09cb \u0b94 \u1e9b\u0323", "ma\u00f1ana ma\u00adn\u200bo",
]


def add(tokenizer, words):
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in words])


def clip():
    vocabulary = json.load(open(f"{FIXTURES}/clip/vocab.json"))
    merges = [tuple(line.split()) for line in open(f"{FIXTURES}/clip/merges.txt").read().strip().split("\n")[1:]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, dropout=None, continuing_subword_prefix="", end_of_word_suffix="</w>", fuse_unk=False, unk_token="<|endoftext|>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    split = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(split, behavior="removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    begin, end = "<|startoftext|>", "<|endoftext|>"
    add(tokenizer, [begin, end])
    tokenizer.post_processor = processors.RobertaProcessing((end, vocabulary[end]), (begin, vocabulary[begin]), False, False)
    return tokenizer


def bert():
    words = open(f"{FIXTURES}/bert/vocab.txt", encoding="utf-8").read().rstrip("\n").split("\n")
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    add(tokenizer, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])])
    return tokenizer


def write(tokenizer, name):
    folder = f"{FIXTURES}/{name}"
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(f"{folder}/tokenizer.json", pretty=False)
    cases = [{"text": text, "tokenizer.json": tokenizer.encode(text).ids} for text in TEXTS]
    with open(f"{folder}/golden.json", "w") as out:
        json.dump({"cases": cases}, out, indent=0)


def fnv(step):
    result = 0xCBF29CE484222325
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        for text in dict.fromkeys((chr(code), unicode.normalize("NFD", chr(code)))):
            for byte in step(text).encode() + b"!":
                result = (result ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{result:016x}"


def main():
    write(clip(), "clip_json")
    write(bert(), "bert_json")
    steps = {
        "compose": lambda text: unicode.normalize("NFC", text),
        "accents": lambda text: "".join(c for c in unicode.normalize("NFD", text) if unicode.category(c) != "Mn"),
        "lower": str.lower,
        "controls": lambda text: "".join(" " if c in "\t\n\r" or unicode.category(c).startswith("Z") else c for c in text if c in "\t\n\r" or (c != "\ufffd" and unicode.category(c)[0] != "C")),
    }
    with open(f"{FIXTURES}/unicode.json", "w") as out:
        json.dump({name: fnv(step) for name, step in steps.items()}, out, indent=1)


main()
