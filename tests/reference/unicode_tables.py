"""Makes src/text/unicode_tables.h. Run from the repository root, with the package unicodedata2 18.0.0:
    python3 tests/reference/unicode_tables.py
"""
import textwrap
import unicodedata2 as unicode

CODES = range(0x110000)
OUT = "src/text/unicode_tables.h"


def kind(code):
    category = unicode.category(chr(code))
    if category == "Mn":
        return 3
    return {"L": 1, "N": 2, "P": 4, "C": 5}.get(category[0], 0)


def runs(value, bits):
    """code << bits | value wherever the value changes."""
    out, last = [], None
    for code in CODES:
        now = value(code)
        if now != last:
            out.append(code << bits | now)
        last = now
    return out


def decompositions():
    """Pairs that are composed again, what is only decomposed (second 0: to a single one), the two blocks of ideographs."""
    pairs, splits = [], []
    for code in CODES:
        text = unicode.decomposition(chr(code))
        if not text or text.startswith("<") or 0xAC00 <= code < 0xD7A4 or 0xF900 <= code < 0xFB00 or code >= 0x2F800:
            continue
        parts = [int(part, 16) for part in text.split()] + [0]
        composed = unicode.normalize("NFC", chr(code)) == chr(code)
        (pairs if composed else splits).extend([code, parts[0], parts[1]])
    return pairs, splits


def ideographs(first, last):
    out = []
    for code in range(first, last):
        text = unicode.decomposition(chr(code))
        out.append(int(text, 16) if text and " " not in text else 0)
    return out


def lower_runs():
    """Of the Unicode version that Python knows: first code, how many, step between them, distance to their lower case; U+0130 becomes two codes and is not here."""
    out = []
    for code in CODES:
        text = chr(code).lower()
        if len(text) != 1 or text == chr(code):
            continue
        distance, last = ord(text) - code, out[-1] if out else None
        if last and last[3] == distance and (code == last[0] + last[1] * last[2] or last[1] == 1 and code - last[0] <= 2):
            last[2] = code - last[0] if last[1] == 1 else last[2]
            last[1] += 1
        else:
            out.append([code, 1, 1, distance])
    return [number for run in out for number in run]


def write(out, text, ctype, name, numbers):
    out.write(f"/* {text} */\nstatic const {ctype} {name}[{len(numbers)}] = {{\n")
    out.write("\n".join(textwrap.wrap(", ".join(map(str, numbers)), 119)) + "};\n")


def main():
    pairs, splits = decompositions()
    with open(OUT, "w") as out:
        out.write(f"/* What tokenizers need of Unicode {unicode.unidata_version}; made by tests/reference/unicode_tables.py. */\n")
        out.write("#ifndef DITI_UNICODE_TABLES_H\n#define DITI_UNICODE_TABLES_H\n#include \"base/base.h\"\n/* clang-format off */\n")
        write(out, "code << 3 | class (diti_unicode_class) wherever the class changes", "uint32_t", "diti_unicode_classes", runs(kind, 3))
        write(out, "code << 8 | canonical combining class wherever that changes", "uint32_t", "diti_unicode_combining", runs(lambda code: unicode.combining(chr(code)), 8))
        write(out, "code, then first and second of its canonical decomposition, which composition turns back", "uint32_t", "diti_unicode_pairs", pairs)
        write(out, "the same, of what stays decomposed; second 0: none", "uint32_t", "diti_unicode_splits", splits)
        write(out, "what the compatibility ideographs from U+F900 on stand for; 0: themselves", "uint32_t", "diti_unicode_ideographs_1", ideographs(0xF900, 0xFADA))
        write(out, "those from U+2F800 on", "uint32_t", "diti_unicode_ideographs_2", ideographs(0x2F800, 0x2FA1E))
        write(out, "first code, how many, step from one to the next, distance to the lower case", "int32_t", "diti_unicode_lower_runs", lower_runs())
        out.write("/* clang-format on */\n#endif\n")


main()
