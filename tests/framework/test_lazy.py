"""Packages whose names come with the first of them that is asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

API = "from __future__ import annotations\nimport sys\nfrom pdl_late.inner import f\n"
INIT = "from pdl.lazy import names_of\n__version__ = '1'\n__getattr__, __dir__ = names_of('pdl_late.api')\n"


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], str]:
    package = tmp_path / "pdl_late"
    package.mkdir()
    for name, text in {"__init__": INIT, "api": API, "inner": "def f(): return 1\n", "light": "x = 2\n"}.items():
        (package / f"{name}.py").write_text(text)

    def run(code: str) -> str:
        found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        return found.stdout.strip() or found.stderr.strip().splitlines()[-1]

    return run


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import pdl_late.light, sys; print('pdl_late.api' in sys.modules)", "False"),
        ("import pdl_late; print(pdl_late.f())", "1"),
        ("from pdl_late import *; print(f())", "1"),
        ("from pdl_late import light; print(light.x)", "2"),
        ("import pdl_late, sys; print(pdl_late.light.x, 'pdl_late.api' in sys.modules)", "2 False"),
        ("import pdl_late; print('f' in dir(pdl_late), pdl_late.__all__)", "True ['f']"),
        ("import pdl_late; pdl_late.g", "AttributeError: module 'pdl_late' has no attribute 'g'"),
        ("import pdl_late; print(pdl_late.__version__, hasattr(pdl_late, '__wrapped__'))", "1 False"),
    ],
)
def test_names_come_when_they_are_asked_for(code: str, says: str, run: Callable[[str], str]) -> None:
    assert run(code) == says
