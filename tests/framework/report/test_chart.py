"""Line charts: every curve has its own look, and its name stands whole inside the chart."""

from __future__ import annotations

import re

from pdl.report.chart import LETTER, WIDTH, line_chart


def test_many_curves_with_long_names() -> None:
    names = [f"runs/sweep/optim.lr=0.00{k},train.seed={k}" for k in range(14)]
    chart = line_chart({name: [(0, k), (1, k + 1)] for k, name in enumerate(names)}, x_label="epoch")
    looks = re.findall(r"<polyline [^>]*(stroke=\"[^>]*)>", chart)
    assert len(set(looks)) == 14
    height = int(re.search(r'viewBox="0 0 \d+ (\d+)"', chart)[1])  # type: ignore[index]
    for name in names:
        x, y = map(int, re.search(rf'<text x="(\d+)" y="(\d+)">{name}<', chart).groups())  # type: ignore[union-attr]
        assert x + LETTER * len(name) <= WIDTH + 12
        assert y < height
    assert 'viewBox="0 0 520 260"' in line_chart({"train": [(0, 1)], "val": [(0, 2)]}, x_label="epoch")
