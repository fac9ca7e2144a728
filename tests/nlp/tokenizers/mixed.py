# ruff: noqa: RUF001, E501, SIM905
"""Lines of mixed scripts, with what goes wrong in real text: for comparisons of tokenizers."""

from __future__ import annotations

import numpy as np

RANGES = (
    (0x20, 0x7F), (0xA0, 0x250), (0x250, 0x370), (0x300, 0x370), (0x370, 0x400), (0x400, 0x530), (0x590, 0x700), (0x900, 0x980),
    (0xE00, 0xE80), (0x1E00, 0x1F00), (0x1F00, 0x2000), (0x2000, 0x2070), (0x2100, 0x2300), (0x3000, 0x30FF),
    (0x4E00, 0x9FFF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0xFF00, 0xFFF0), (0x1F300, 0x1F700),
    (0x1D400, 0x1D800), (0x20000, 0x20100), (0, 0x20), (0x80, 0xA0), (0, 0xD800), (0xE000, 0x110000),
)  # fmt: skip
WORDS = (
    "the The don't WE'LL it's naïve façade Übermäßig ÅNGSTRÖM résumé İstanbul ΣΊΣΥΦΟΣ Привет мир هذا نص عربي नमस्ते दुनिया "
    "สวัสดีชาวโลก 今天天气很好 我们在北京 東京タワー 안녕하세요 세계 tokenization unbelievable 3.14159 2026-11-23 $1,000.50 "
    "http://example.org/a?b=c#d e-mail@host.net C++ #tag @user [MASK] [CLS] [SEP] <s> </s> <mask> 😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ e\u0301 "
    "\u200b \ufeff \u00ad \u202e \x00 \x07 \x1c \x85 \ufffd \u2028 \t \r \u3000 \xa0 ﬁ ½ ² Ⅷ ㎏ ｆｕｌｌ …— «quoted» “double” ‘single’ "
    "a\u0327\u0301 q\u0323\u0307 ≠ \u037e ･ ﷺ ཨོཾ ᠮᠣᠩᠭᠣᠯ የኢትዮጵያ ქართული ελληνικά"
).split(" ")
LONG = ("a" * 99, "b" * 100, "c" * 101, "中" * 300, "ab" * 400, "é" * 120, "." * 80, "!?" * 60, "  " * 20)

#: what Llama 3's and Qwen 2's expressions split otherwise than GPT-2's
PARTS = [
    "IT'S we'LL they'Ve I'M you'Re'd 'ſ x'S' 'sx",
    "1234567 12 3,141,592 a1b22c333 ½²٣٤٥٦ ×12",
    "a\n\n\nb \n c\r\n\r\nd  \t\n  e\n ",
    "f(x)\n!!\n\n.\r\n?! ...\n\tif (a) {\n\t\treturn;\n\t}\n",
    "  two  spaces   three    \u3000全角 \xa0x\u2028y ",
    "-word _word .Word\tword\nword 中文，标点。 e\u0301t\u0301 🙂🙂 a",
    "'", "' ", "\n", " ", "  ", "", "'s", "\r\n ", "9", "a'",
]  # fmt: skip


def mixed_lines(n: int, seed: int = 0) -> list[str]:
    """n lines, the same for the same seed; without surrogates, which HF does not take."""
    rng = np.random.default_rng(seed)
    return [_line(rng).encode("utf-8", "replace").decode() for _ in range(n)]


def _line(rng: np.random.Generator) -> str:
    parts = [_part(rng) for _ in range(int(rng.integers(0, 14)))]
    line = "".join(part + (" " if rng.random() < 0.7 else "") for part in parts)
    if rng.random() < 0.05:  # broken UTF-8
        raw = bytearray(line.encode("utf-8", "replace"))
        for place in rng.integers(0, max(len(raw), 1), 3 * bool(raw)):
            raw[int(place)] = int(rng.integers(0, 256))
        line = bytes(raw).decode("utf-8", "replace")
    return line


def _part(rng: np.random.Generator) -> str:
    kind = rng.random()
    if kind < 0.55:
        return str(WORDS[int(rng.integers(len(WORDS)))])
    if kind < 0.56:
        return LONG[int(rng.integers(len(LONG)))]
    low, high = RANGES[int(rng.integers(len(RANGES)))]
    return "".join(map(chr, rng.integers(low, high, int(rng.integers(1, 12)))))
