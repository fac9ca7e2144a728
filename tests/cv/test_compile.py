"""`pdl compile`: packaged models as C, with their steps."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pdl.runtime
from pdl.cli import main
from pdl.errors import UsageError
from pdl.export.c import to_c
from pdl.runtime.bundle import read

WEIGHTS = Path(__file__).parents[2] / "suites"
CC = shutil.which("cc") or shutil.which("gcc")
#: packaged models that have no C form, and why
REFUSED = {
    "nuclei": "ArgTopK",
    "road_signs": "SelectBoxes",
    "ud_ewt": "CrfDecode",
    "tatoeba_en_zh": "decoder",
}


@pytest.mark.parametrize("path", sorted(WEIGHTS.glob("*/pdl_*/weights/*.pdl")), ids=lambda path: path.stem)
def test_packaged_models(path: Path) -> None:
    """Each is written, or refused by name."""
    bundle = read(path)
    reason = REFUSED.get(path.stem)
    if bundle.program["kind"] != "program":
        assert bundle.program["kind"] == reason
        return
    ports = {"inputs": bundle.program["inputs"], "outputs": bundle.program["outputs"]}
    if reason is not None:
        with pytest.raises(UsageError, match=rf"no C form:(?s:.*){reason}"):
            to_c(bundle.build(), path.stem, apart=True, **ports)
        return
    made = to_c(bundle.build(), path.stem, apart=True, **ports)
    assert made.weights
    assert len(made.source) < 300_000


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
def test_a_picture_to_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's folder: its test passes, and a picture gets the name that the runtime gives it."""
    folder = tmp_path / "c"
    assert main(["compile", "cv/digits_lenet", "--save", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["difference"] <= 1e-5
    assert said["ram"] <= 20_000
    command = [str(CC), "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", "lib.so"]
    subprocess.run([*command, "digits_lenet.c", "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "lib.so"))
    session = pdl.runtime.load("cv/digits_lenet")
    assert session.pipeline is not None
    names = (ctypes.c_char_p * 10).in_dll(library, "digits_lenet_names")
    rng = np.random.default_rng(0)
    for size in ((8, 8), (16, 24), (33, 20), (6, 7), (5, 40)):
        pixels = rng.integers(0, 256, (*size, 1), dtype=np.uint8)
        image, logits, score = np.empty((8, 8, 1), np.float32), np.empty(10, np.float32), ctypes.c_float()
        at = [a.ctypes.data_as(ctypes.c_void_p) for a in (image, logits, pixels)]
        library.digits_lenet_prepare(at[0], at[2], *size)
        assert np.abs(image - session.pipeline.prepare(pixels)["image"]).max() <= 1.001 / 255 / 0.3761
        library.digits_lenet_run(at[0], at[1])
        best = library.digits_lenet_best(at[1], ctypes.byref(score))
        wanted = session.run({"image": image[None]})["logits"][0]
        assert best == wanted.argmax()
        assert (names[best] or b"").decode() == session.bundle.labels[best]  # type: ignore[union-attr]
        assert score.value == pytest.approx(1 / np.exp(wanted - wanted.max()).sum(), rel=1e-5)


def test_what_cannot_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, says in (
        (["--to", "fortran"], "--to fortran: choose c"),
        (["--shape", "image"], "--shape image: write the name of an input and its sizes"),
        (["--shape", "image=1,0"], "--shape image=1,0: write"),
        (["--shape", "photo=1,8,8,1"], "--shape photo: the model has the inputs image"),
    ):
        assert main(["compile", "cv/digits_lenet", "--save", str(tmp_path / "c"), *more]) == UsageError.exit_code
        assert says in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
