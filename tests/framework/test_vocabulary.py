"""Names by number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import DataError, UsageError
from pdl.vocabulary import Vocabulary


@given(st.lists(st.text(), unique=True))
def test_text_and_numbers_round_trip(names):
    made = Vocabulary(names)
    again = Vocabulary.read(made.text(), "v.txt")
    assert list(again) == names
    numbers = made.encode(names)
    assert numbers.tolist() == list(range(1, len(made) + 1))
    assert [made.decode(int(n)) for n in numbers] == names


def test_unknown_names_are_zero():
    made = Vocabulary(["a", "b"])
    np.testing.assert_array_equal(made.encode(["b", "x", "a"]), [2, 0, 1])
    assert "a" in made
    assert "x" not in made
    with pytest.raises(UsageError, match="from 1 to 2"):
        made.decode(0)


@pytest.mark.parametrize(
    ("text", "what"), [("a\nb", "cut off"), ("a\na\n", "'a' is there twice"), ("a\\q\n", "backslash")]
)
def test_damaged_text_is_refused(text, what):
    with pytest.raises(DataError, match=what):
        Vocabulary.read(text, "v.txt")
