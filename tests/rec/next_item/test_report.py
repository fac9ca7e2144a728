"""Where in a session a model hits."""

from __future__ import annotations

import numpy as np

from pdl_rec.next_item.loader import Prefixes
from pdl_rec.next_item.report import by_position
from tests.rec.next_item.made import sessions


def test_recall_by_items_known_before() -> None:
    data = Prefixes(sessions([1] * 9, [1, 1], [1, 1, 1]), max_length=4)
    before = [*range(1, 9), 1, 1, 2]
    ranks = np.array([1, 9, 1, 9, 9, 1, np.inf, 1, 1, np.inf, 1])
    page = by_position(data, ranks, 5)
    expected = {"1": (1, 1, 0), "2": (0, 1), "3": (1,), "4": (0,), "5 to 6": (0, 1), "7 to 8": (0, 1)}
    assert sum(map(len, expected.values())) == len(before)
    for name, hits in expected.items():
        recall = f"{np.mean(hits):.4g}"
        assert f'<td>{name}</td><td class="n">{recall}</td><td class="n">{len(hits)}</td>' in page
