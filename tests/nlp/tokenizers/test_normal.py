"""Normal forms of Unicode, with the positions that their code points are from."""

from __future__ import annotations

from unicodedata import normalize

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_nlp.tokenizers import ByteLevelBPE
from pdl_nlp.tokenizers.bpe import ALPHABET
from pdl_nlp.tokenizers.normal import FORMS, Form, normalised
from tests.nlp.tokenizers.mixed import mixed_lines

MORE = (0x301, 0x323, 0x308, 0x1E9B, 0x344, 0x1112, 0x1161, 0x11AB, 0xAC00, 0xFB01, 0xFDFA, 0x958, 0xF73, 0x338)
LETTERS = [*"ae<> ", *map(chr, MORE)]


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_those_of_python(form: Form) -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(LETTERS, 7)) for _ in range(500)] + mixed_lines(200, seed=3)
    changed = 0
    for text in texts:
        made, places = normalised(text, form)
        assert made == normalize(form, text)
        if places is not None:
            changed += 1
            assert len(places) == len(made)
            assert (np.diff(places[:, 0]) >= 0).all()
            assert (places[:, 1] == places[:, 0] + 1).all()
            assert 0 <= places.min() <= places.max() <= len(text)
    assert changed > 300


def test_positions_as_hf_has_them() -> None:
    """By HF tokenizers 0.23: what is put together is where the first part is, what is taken apart is where it was."""
    assert normalised("ae\u0301b", "NFC")[1].tolist() == [[0, 1], [1, 2], [3, 4]]  # type: ignore[union-attr]
    assert normalised("\ufb01x", "NFKC")[1].tolist() == [[0, 1], [0, 1], [1, 2]]  # type: ignore[union-attr]
    assert normalised("\u1e9b\u0323", "NFKD")[1].tolist() == [[0, 1], [1, 2], [1, 2]]  # type: ignore[union-attr]
    assert normalised("abc", "NFC") == ("abc", None)


def test_added_tokens_stand_apart() -> None:
    """What is behind an added token does not become part of it."""
    tokens = ["<pad>", *ALPHABET.values()]
    made = ByteLevelBPE(tokens, np.zeros((0, 2), np.int32), special={"pad": "<pad>"}, normal="NFC")
    assert made.tokenize("<pad>\u0338")[0] == "<pad>"
    assert made.encode_many(["e\u0301<pad>\u0338"]).offsets.tolist() == [[0, 1], [0, 1], [2, 7], [7, 8], [7, 8]]
    assert ByteLevelBPE.of(*made.state()).settings()["normal"] == "NFC"
    with pytest.raises(UsageError, match=r"normal='NFX' must be one of NFC, NFD, NFKC, NFKD"):
        ByteLevelBPE(tokens, np.zeros((0, 2), np.int32), normal="NFX")  # type: ignore[arg-type]
