"""Makes tests/fixtures/tokenizers/scripts: a byte-level BPE tokenizer in the forms of Qwen2 and LLaMA 3, and a BPE of characters in the
form of Gemma, trained on 200 prompts in 20 scripts, and what the tokenizers library makes of these prompts, alone and in the chat templates of docs/models.md 5.5.

Run from the repository root, with the package tokenizers 0.23.3:
    python3 tests/reference/tokenizer_scripts.py
"""
import json
import os
import random
import unicodedata
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = "tests/fixtures/tokenizers/scripts"
PIECES = 900
LENGTH = 40
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<think>", "</think>", "<|im"]

# Sentences about pictures. The numbers of each script stand behind its sentences.
SCRIPTS = {
    "Latin": ["Ein alter Fischer flickt sein Netz", "une forêt d'érables sous la première neige", "žluťoučký kůň u řeky, světlo večera", "Ağaçların altında ışıldayan bir göl", "đường phố Sài Gòn sau cơn mưa", "0123456789"],
    "Cyrillic": ["старый маяк над бурным морем", "їжак у тумані, тихий ліс", "ђаци цртају Ђурђевак крај реке", "0123456789"],
    "Greek": ["ένα λευκό χωριό πάνω από τη θάλασσα", "ἄνθρωπος τὴν σοφίαν ἀγαπᾷ", "Ο ΟΔΥΣΣΕΑΣ στο πλοίο", "0123456789"],
    "Han": ["一只橘猫坐在窗台上看雨", "繁體字的書法，水墨山水畫", "宇航员骑马穿过火星沙漠", "〇一二三四五六七八九"],
    "Kana": ["さくらの木の下でお茶をのむ", "カメラを持ったロボット、ﾊﾝｶｸ", "がぎぐげご ぱぴぷ", "０１２３４５６７８９"],
    "Hangul": ["한강 위의 불꽃놀이와 다리", "고양이가 책을 읽는 방", "각 갂 값 힣", "0123456789"],
    "Arabic": ["سوق قديم عند غروب الشمس", "قِطٌّ صَغِيرٌ يَنامُ", "گربه‌ای زیر درخت پسته", "٠١٢٣٤٥٦٧٨٩"],
    "Hebrew": ["חתול שחור על גג אדום", "שָׁלוֹם עַל הָאָרֶץ", "ציור שמן של ים סוער", "0123456789"],
    "Devanagari": ["पहाड़ों के बीच एक नीली झील", "क्षत्रिय ज्ञान श्रृंगार", "नमस्ते, दो बच्चे पतंग उड़ाते हैं", "०१२३४५६७८९"],
    "Bengali": ["বৃষ্টির পরে নদীর ধারে নৌকা", "ক্ষুদ্র কুঁড়েঘর ও ধানক্ষেত", "০১২৩৪৫৬৭৮৯"],
    "Tamil": ["கடற்கரையில் ஒரு கோவில்", "மாலை வானம், கொக்கு பறக்கிறது", "௦௧௨௩௪௫௬௭௮௯"],
    "Telugu": ["వర్షంలో ఎర్రని గొడుగు", "కొండపై చిన్న ఇల్లు", "౦౧౨౩౪౫౬౭౮౯"],
    "Thai": ["ตลาดน้ำยามเช้ากับหมอกบาง", "แมวนอนอยู่บนหลังคาบ้าน", "๐๑๒๓๔๕๖๗๘๙"],
    "Lao": ["ແມ່ນ້ຳຂອງຕອນແລງ", "ວັດເກົ່າໃນປ່າ", "໐໑໒໓໔໕໖໗໘໙"],
    "Khmer": ["ប្រាសាទក្នុងព្រៃពេលព្រឹក", "ទូកលើទន្លេ", "០១២៣៤៥៦៧៨៩"],
    "Myanmar": ["ရွှေတိဂုံစေတီ ညနေခင်း", "ကြောင်ဖြူလေး", "၀၁၂၃၄၅၆၇၈၉"],
    "Georgian": ["ძველი თბილისის აივნები", "ᲛᲗᲐ და ზღვა", "0123456789"],
    "Armenian": ["Արարատ լեռը արշալույսին", "խաղողի այգի և հին եկեղեցի", "0123456789"],
    "Ethiopic": ["የላሊበላ ድንጋይ ቤተ ክርስቲያን", "ቡና የምታፈላ ሴት", "፩፪፫፬፭፮፯፰፱፲"],
    "Tibetan": ["གངས་རིའི་འོག་གི་དགོན་པ།", "གཡག་དཀར་པོ་", "༠༡༢༣༤༥༦༧༨༩"],
}
SPACES = [" ", "  ", "\n", "\r\n", "\t", " \n ", "\u3000", "\u00a0", "\n\n", "\u2003", "\u2028", "\x0b\x0c", "\x1c \x1f", "\x85"]
SIGNS = [",", ".", "...", "!", "?!", "—", "“", "”", "(", ")", "[x]", "{y}", "_", "@#$", "&", "'", "\"", "/", "\\", "½", "²", "Ⅳ", "™", "👍🏽", "👩‍👩‍👧", "❤️", "\u200b", "\ufeff", "\u00ad", "\x07", "\u20ac5", "=>", "//", "*"]
ENDINGS = ["it's", "DON'T", "we'll", "I'VE", "they'd", "'re", "y'all'd", "x'ſub", "'Sam", "we'LLama", "o'clock", "l'été"]
SPECIAL = ["<|im_end|>", "<|im", "<|im_start|>user\n", "<think>", "</think>", "<|image_pad|><|image_pad|>", "<|endoftext|>", "< think>", "<|im_end"]


def prompts():
    draw = random.Random(18)
    texts = []
    for sentences in SCRIPTS.values():
        sentences, digits = sentences[:-1], sentences[-1]
        number = lambda: "".join(draw.choice(digits) for _ in range(draw.randint(1, 9)))
        for kind in range(10):
            parts = [draw.choice(sentences) for _ in range(draw.randint(1, 3))]
            if kind in (1, 6):
                parts.insert(draw.randint(0, len(parts)), number())
            if kind in (2, 7):
                parts = [part + draw.choice(SIGNS) for part in parts]
            if kind in (3, 8):
                parts.insert(draw.randint(0, len(parts)), draw.choice(ENDINGS))
            if kind == 4:
                parts.insert(draw.randint(0, len(parts)), draw.choice(SPECIAL))
            if kind == 5:
                parts = [unicodedata.normalize("NFD", part) for part in parts]
            text = parts[0]
            for part in parts[1:]:
                text += (draw.choice(SPACES) if kind != 9 else draw.choice(SPACES) + draw.choice(SIGNS) + draw.choice(["", " "])) + part
            if kind == 9:
                text = draw.choice(SPACES) + text + draw.choice(SPACES)
            texts.append(text)
    return texts


PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split(digits):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN % digits), behavior="isolated", invert=False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def letters():
    """The byte symbols in the order of their ids."""
    order = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    names = {byte: chr(byte) for byte in order}
    others = [byte for byte in range(256) if byte not in names]
    names.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return [names[byte] for byte in order + others]


def train(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split(r"\p{N}")
    words = ["ſub Sam LLama"] * 30  # pieces that a missed ending before them would make of it
    tokenizer.train_from_iterator(texts + words + [before + after for before, after, _ in CHATS.values()], trainers.BpeTrainer(vocab_size=PIECES, initial_alphabet=letters(), show_progress=False))
    merges = [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]
    vocabulary = {letter: i for i, letter in enumerate(letters())}
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    return vocabulary, merges


def build(vocabulary, merges, llama):
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, ignore_merges=llama))
    if not llama:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split(r"\p{N}{1,3}" if llama else r"\p{N}")
    tokenizer.decoder = decoders.ByteLevel()
    tokens = ADDED + (["<|begin_of_text|>"] if llama else [])
    for text in tokens:
        token = AddedToken(text, normalized=False, special="think" not in text)
        (tokenizer.add_tokens if "think" in text else tokenizer.add_special_tokens)([token])
    level = processors.ByteLevel(trim_offsets=False)
    if llama:
        begin = "<|begin_of_text|>"
        level = processors.Sequence([level, processors.TemplateProcessing(single=[begin, "$A"], pair=[begin, "$A", begin, "$B:1"], special_tokens=[(begin, tokenizer.token_to_id(begin))])])
    tokenizer.post_processor = level
    return tokenizer


def gemma(texts):
    """Characters that fewer than four prompts have are spelled in bytes."""
    specials = ["<pad>", "<eos>", "<bos>", "<unk>"]
    common = sorted({c for text in texts for c in text if sum(c in other for other in texts) >= 4} - {" "} | {"▁"})
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.train_from_iterator(["".join(c for c in text if c in common or c == " ") for text in texts], trainers.BpeTrainer(vocab_size=700, initial_alphabet=common, show_progress=False))
    merges = [tuple(merge) for merge in json.loads(trained.to_str())["model"]["merges"]]
    vocabulary = {}
    for piece in specials + [f"<0x{byte:02X}>" for byte in range(256)] + ["<start_of_turn>"] + common + [left + right for left, right in merges]:
        vocabulary.setdefault(piece, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous", invert=False)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in specials + ["<start_of_turn>"]])
    tokenizer.post_processor = processors.TemplateProcessing(single=["<bos>", "$A"], pair=["<bos>", "$A", "<bos>", "$B:1"], special_tokens=[("<bos>", 2)])
    return tokenizer


SYSTEM, USER, ANSWER = "<|im_start|>system\n", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
DESCRIBE = SYSTEM + "Describe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the objects and background:<|im_end|>\n" + USER
EDIT = SYSTEM + "Describe the key features of the input image (color, shape, size, texture, objects, background), then explain how the user's text instruction should alter or modify the image. Generate a new image that meets the user's requirements while maintaining consistency with the original input where appropriate.<|im_end|>\n" + USER
COMPREHEND = SYSTEM + "Comprehend and analyze the provided prompt.<|im_end|>\n"
# model: text before and behind the prompt, and what of it is dropped
CHATS = {
    "zimage": (USER, ANSWER, ""),
    "flux2_klein": (USER, ANSWER + "<think>\n\n</think>\n\n", ""),
    "qwenimage": (DESCRIBE, ANSWER, DESCRIBE),
    "qwenimage_edit": (EDIT, ANSWER, EDIT),
    "qwenimage21": (COMPREHEND + USER, ANSWER, COMPREHEND),
    "krea2": (DESCRIBE, ANSWER, DESCRIBE),
    "anima": ("", "", ""),
}
# Mistral's words begin at capitals; its chat has tokens of its own.
MISTRAL = ["<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<pad>"]
REASON = "[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured responses focusing on object relationships, object\nattribution and actions without speculation.[/SYSTEM_PROMPT][INST]"
CAPITALS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = ["HTMLParser iOS McDonald's", "ǅungla ǅ ǅA", "ABCd ABC de ABΓδ", "ʰAʰ Aʰb AʰB AʰBc", "e\u0301A A\u0301e \u0301 \u0301A !\u0301B", "अA Aअ AअB", "//a/b ./\n/c -/\r\n/", "\u20ddA \u0903B", "𝔸𝔹c 𝒶B", "ﬀA Ⓐⓐ"]


def mistral(vocabulary, merges):
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CAPITALS), behavior="isolated", invert=False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in MISTRAL])
    tokenizer.post_processor = processors.TemplateProcessing(single=["<s>", "$A"], pair=["<s>", "$A", "<s>", "$B:1"], special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def mixed(text, draw):
    """Half of the letters as capitals."""
    return "".join(c.upper() if draw.random() < 0.5 else c for c in text)


def write_mistral(texts, vocabulary, merges):
    tokenizer, draw = mistral(vocabulary, merges), random.Random(20)
    tokenizer.save(f"{OUT}/mistral.json", pretty=False)
    several = texts + [mixed(text, draw) for text in texts[::4]] + WORDS
    cut = pre_tokenizers.Split(Regex(CAPITALS), behavior="isolated", invert=False)
    lengths = lambda text: [end - begin for _, (begin, end) in cut.pre_tokenize_str(text)]
    cases = [{"text": text, "mistral": tokenizer.encode(text).ids, "words": lengths(text)} for text in several]
    chats = [{"model": "flux2_dev", "prompt": text, "text": REASON + text + "[/INST]", "ids": tokenizer.encode(REASON + text + "[/INST]").ids, "dropped": 0} for text in several[::12]]
    write("golden_mistral.json", {"cases": cases, "chat": chats})


def chat(tokenizer, model, prompt):
    before, after, dropped = CHATS[model]
    text = before + prompt + after
    ids = tokenizer.encode(text).ids
    if model == "krea2":  # the pipeline makes tokens of what follows the prompt apart
        ids = tokenizer.encode(before + prompt).ids + tokenizer.encode(after).ids
    return {"model": model, "prompt": prompt, "text": text, "ids": ids, "dropped": len(tokenizer.encode(dropped).ids)}


def write(name, value):
    with open(f"{OUT}/{name}", "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")


def main():
    os.makedirs(OUT, exist_ok=True)
    texts = prompts()
    vocabulary, merges = train(texts)
    qwen, llama = build(vocabulary, merges, False), build(vocabulary, merges, True)
    qwen.save(f"{OUT}/tokenizer.json", pretty=False)
    llama.save(f"{OUT}/llama3.json", pretty=False)
    pieces = gemma(texts)
    pieces.save(f"{OUT}/gemma.json", pretty=False)
    write("vocab.json", vocabulary)
    with open(f"{OUT}/merges.txt", "w", encoding="utf-8") as out:
        out.write("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges))
    added = {str(qwen.token_to_id(text)): {"content": text, "special": "think" not in text} for text in ADDED}
    write("tokenizer_config.json", {"added_tokens_decoder": added, "pad_token": "<|endoftext|>", "model_max_length": 131072})
    pad = qwen.token_to_id("<|endoftext|>")
    cases = []
    for text in texts:
        ids = qwen.encode(text).ids
        kept = ids[:LENGTH]
        cases.append({"text": text, "ids": ids, "ids_padded": kept + [pad] * (LENGTH - len(kept)), "attention_mask": [1] * len(kept) + [0] * (LENGTH - len(kept)), "llama3": llama.encode(text).ids, "gemma": pieces.encode(text).ids})
    chats = [chat(qwen, list(CHATS)[i % len(CHATS)], text) for i, text in enumerate(texts)]
    write("golden.json", {"max_length": LENGTH, "cases": cases, "chat": chats})
    write_mistral(texts, vocabulary, merges)
    print(len(texts), "prompts,", len(vocabulary), "pieces")


main()
