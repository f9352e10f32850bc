"""Makes src/text/unicode_tables.h. Run from the repository root, with the package unicodedata2 18.0.0:
    python3 tests/reference/unicode_tables.py
"""
import unicodedata2 as unicode

CODES = range(0x110000)
OUT = "src/text/unicode_tables.h"


def kind(code):
    category = unicode.category(chr(code))
    if category == "Mn":
        return 3
    return {"L": 1, "N": 2, "P": 4, "C": 5}.get(category[0], 0)


def case(code):
    """UPPER, LOWER, and MARK where the class is another one; 0: the class says it."""
    category = unicode.category(chr(code))
    return {"Lu": 7, "Lt": 7, "Ll": 8, "Mc": 3, "Me": 3}.get(category, 0)


def runs(value):
    """code, value wherever the value changes."""
    out, last = [], None
    for code in CODES:
        now = value(code)
        if now != last:
            out.extend([code, now])
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


# Numbers are written as differences from the number a row before, twice their size (minus one where negative), in digits of base 45:
# signs that stand for 45 and more say that more digits follow.
DIGITS = [chr(c) for c in range(33, 127) if chr(c) not in "\"\\?%"]


def digits(number):
    number = 2 * number if number >= 0 else -2 * number - 1
    out = ""
    while number >= 45:
        out += DIGITS[45 + number % 45]
        number //= 45
    return out + DIGITS[number]


def write(out, text, name, columns, numbers):
    body = "".join(digits(number - (numbers[i - columns] if i >= columns else 0)) for i, number in enumerate(numbers))
    out.write(f"/* {text} */\n#define {name.upper()} {len(numbers)}u\n")
    out.write(f"static const char *const {name}[] = {{\n")
    out.write(",\n".join(f'"{body[i:i + 116]}"' for i in range(0, len(body), 116)))
    out.write("};\n")


def main():
    pairs, splits = decompositions()
    with open(OUT, "w") as out:
        out.write(f"/* The part of Unicode {unicode.unidata_version} that tokenizers need, as unicode.c reads it; made by tests/reference/unicode_tables.py. */\n")
        out.write("#ifndef DITI_UNICODE_TABLES_H\n#define DITI_UNICODE_TABLES_H\n/* clang-format off */\n")
        write(out, "code, class (diti_unicode_class) wherever the class changes", "diti_unicode_classes", 2, runs(kind))
        write(out, "code, canonical combining class wherever that changes", "diti_unicode_combining", 2, runs(lambda code: unicode.combining(chr(code))))
        write(out, "code, then first and second of its canonical decomposition, which composition turns back", "diti_unicode_pairs", 3, pairs)
        write(out, "the same, of what stays decomposed; second 0: none", "diti_unicode_splits", 3, splits)
        write(out, "what the ideographs U+F900 to U+FAD9, then U+2F800 to U+2FA1D stand for; 0: themselves", "diti_unicode_ideographs", 1, ideographs(0xF900, 0xFADA) + ideographs(0x2F800, 0x2FA1E))
        write(out, "first code, how many, step from one to the next, distance to the lower case", "diti_unicode_lowers", 4, lower_runs())
        write(out, "code, class of letters of one case and of other marks wherever that changes; 0: as above", "diti_unicode_cases", 2, runs(case))
        out.write("/* clang-format on */\n#endif\n")


main()
