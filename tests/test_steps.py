"""Steps of suites are light: to answer by a bundle, nothing is imported that only training needs."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import packages
from pdl.runtime import bundle
from pdl.runtime.steps.registry import names, requires
from pdl.vocabulary import Vocabulary
from tests.framework.runtime import made
from tests.test_layers import LAYERS

PROVIDED = {name: each for name, each in packages.read(packages.STEPS).good.items() if each.value.startswith("pdl_")}
SUITES = sorted({each.distribution for each in PROVIDED.values()})
#: what steps may import of pdl: the layers up to the runtime, and of these nothing that computes with tensors
LIGHT = set(LAYERS[: LAYERS.index("runtime") + 1]) - {"tensor", "autograd", "ops", "program", "nn", "optim", "jit"}
HEAVY = [
    "hydra", "omegaconf", "yaml", "cv2", "typer", "pyarrow", "scipy", "jax", "torch",
    *(f"pdl.{name}" for name in LAYERS[LAYERS.index("runtime") + 1 :]),
]  # fmt: skip


def imports(path: Path) -> Iterator[str]:
    """The modules, and names in modules, that a file imports when it is imported itself."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    for node in waiting:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif not isinstance(node, ast.FunctionDef) and not (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            waiting += ast.iter_child_nodes(node)


def module_of(name: str) -> tuple[str, Path]:
    """The module that an imported name is, or is found in, and its file."""
    while True:
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is not None and found.origin is not None:
            return name, Path(found.origin)
        name = name.rpartition(".")[0]


def closure(first: set[str]) -> dict[str, set[str]]:
    """The modules of suites that these import, directly or through others of the suites: what each imports."""
    found: dict[str, set[str]] = {}
    waiting = sorted(first)
    for name in waiting:
        module, path = module_of(name)
        if module not in found:
            found[module] = set(imports(path)) if path.suffix == ".py" else set()
            waiting += [each for each in found[module] if each.startswith("pdl_")]
            waiting += [module.rpartition(".")[0]] if "." in module else []
    return found


@pytest.mark.parametrize("suite", SUITES)
def test_steps_import_nothing_heavy(suite: str) -> None:
    own = suite.replace("-", "_")
    found = closure({each.value.partition(":")[0] for each in PROVIDED.values() if each.distribution == suite})
    wrong = [
        f"{module} imports {name}"
        for module, targets in found.items()
        for name in targets
        for top, _, rest in [name.partition(".")]
        if top not in (*sys.stdlib_module_names, "numpy", own) and not (top == "pdl" and rest.split(".")[0] in LIGHT)
    ]
    assert not wrong
    assert all(module.partition(".")[0] == own for module in found)


WORDS = Vocabulary(["a", "b"])
NODES = {"graph.start": np.array([0, 1, 2]), "graph.neighbours": np.array([1, 0], np.int32)}
REPLIES = {"vectors.words": np.eye(2, dtype=np.float16)}
IMAGE = [{"step": "image", "mode": "rgb"}]
RESIZED = [{"step": "resize", "size": [4, 4]}]
PICTURES = {"words.vectors": np.eye(2, dtype=np.float32), "words.pictures": np.zeros((2, 64, 64, 3), np.uint8)}
WORDS_OF = {"kind": "words", "special": {"pad": "a", "unknown": "b"}}
TEXT = {"vocabulary": "words", "tokenizer": WORDS_OF}
MASKED = {**TEXT, "tokenizer": {"kind": "words", "special": {"pad": "a", "unknown": "b", "mask": "b"}}, "masks": True}
SPOKEN = {"step": "griffin_lim", "rate": 8000, "hop": 2, "frames": "y"}
VOCODER = {"filters": np.ones((3, 2), np.float32), "window": np.ones(4, np.float32)}
CENTRES = {"step": "centerface", "sizes": "y", "offsets": "y"}
#: distribution -> pipelines that have all of its steps, and what these need
BUNDLES: dict[str, list[dict[str, Any]]] = {
    "pdl-cv": [
        {"pre": IMAGE, "post": [{"step": "detections", "scores": "y", "labels": "y"}]},
        {"pre": IMAGE, "post": [{"step": "keypoints"}]},
        {"pre": IMAGE, "post": [CENTRES]},
        {"pre": IMAGE, "post": [{"step": "segmentation"}]},
        {"pre": IMAGE, "post": [{"step": "nearest"}]},
        {"pre": [{"step": "noise", "shape": [8]}], "post": [{"step": "picture"}]},
        {"pre": [{"step": "asked"}]},
        {"pre": IMAGE, "post": [{"step": "nearest_in", "gallery": "words"}], "constants": PICTURES},
        {"pre": [{"step": "clip", "frames": 2}, {"step": "each_frame", "steps": RESIZED}]},
        {"pre": [{"step": "clip", "frames": 2}, {"step": "three_crops", "size": [4, 4]}]},
        {"pre": [{"step": "skeleton", "joints": 3, "channels": 2, "frames": 4}, {"step": "centred", "joint": 0}]},
    ],
    "pdl-graph": [
        {"pre": [{"step": "graph", "part": "x", "kind": "node", "features": 4}]},
        {"pre": [{"step": "nodes", "vocabulary": "words", "kind": "node"}]},
        {"pre": [{"step": "smiles", "part": "x"}]},
        {"pre": [{"step": "enclosing_subgraph", "part": "node", "vocabulary": "words"}], "constants": NODES},
        {"pre": [{"step": "triple_query", "part": "entity", "entities": "words", "relations": "words"}]},
    ],
    "pdl-nlp": [
        {"pre": [{"step": "tokens", **TEXT}], "post": [{"step": "text_vector"}]},
        {"pre": [{"step": "tokens", **TEXT}], "post": [{"step": "spans", "scheme": "BIO", "vocabulary": "words"}]},
        {"pre": [{"step": "tokens", **TEXT}], "post": [{"step": "marks", "marks": {"a": ","}, "vocabulary": "words"}]},
        {
            "pre": [{"step": "tokens", **TEXT}],
            "post": [{"step": "corrections", "p": "y", "threshold": 0.5, "vocabulary": "words"}],
        },
        {
            "pre": [{"step": "windows", **TEXT}],
            "post": [{"step": "answer_span", "max_answer": 3, "vocabulary": "words"}],
        },
        {"pre": [{"step": "tokens", **TEXT}], "post": [{"step": "text_score"}]},
        {"pre": [{"step": "letters", **TEXT, "letters": "words", "width": 4}]},
        {"pre": [{"step": "masks", **MASKED}], "post": [{"step": "fill", "vocabulary": "words"}]},
        {"pre": [{"step": "prompt", **TEXT}]},
        {
            "pre": [{"step": "turns", **TEXT}],
            "post": [{"step": "replies", "vocabulary": "words"}],
            "constants": REPLIES,
        },
    ],
    "pdl-ocr": [
        {"pre": IMAGE, "post": [{"step": "db_boxes"}]},
        {"pre": IMAGE, "post": [{"step": "east_boxes"}]},
        {
            "pre": [{"step": "page_lines", "gives": "boxes", "vocabulary": "words"}],
            "post": [{"step": "field_values", "names": ["total"], "longest": [9]}],
        },
    ],
    "pdl-quantum": [
        {"pre": [{"step": "pauli_word", "part": "word", "num_qubits": 2}]},
        {"pre": [{"step": "bit_string", "part": "bits", "num_qubits": 2}], "post": [{"step": "bit_strings"}]},
    ],
    "pdl-rec": [
        {"pre": [{"step": "session", "vocabulary": "words"}]},
        {"pre": [{"step": "words", "vocabulary": "words", "length": 3, "part": "title"}]},
    ],
    "pdl-speech": [
        {"pre": [{"step": "waveform", "rate": 8000}, {"step": "pad_or_crop", "samples": 4000}]},
        {"pre": [{"step": "frames", "channels": 13}]},
        {
            "pre": [{"step": "waveform", "rate": 8000}],
            "post": [{"step": "speech_segments", "rate": 8000, "hop": 256, "source": "image"}],
        },
        {"pre": [{"step": "waveform", "rate": 8000}], "post": [{"step": "pitch_track", "rate": 8000, "hop": 80}]},
        {
            "pre": [{"step": "waveform", "rate": 8000}],
            "post": [{"step": "slots", "names": ["size"], "values": [["", "small"]]}],
        },
        {
            "pre": [{"step": "waveform", "rate": 8000}, {"step": "first_samples", "samples": 4000}],
            "post": [{"step": "note_events", "onsets": "y", "rate": 8000, "hop": 80}],
        },
        {"pre": [{"step": "spoken_text"}], "post": [SPOKEN], "constants": VOCODER},
        {"pre": [{"step": "manner"}]},
        {"pre": [{"step": "frame_room", "pace": 5.0}]},
    ],
}


#: steps that read all outputs of a net that writes; tests/nlp/language_modelling has a bundle of them
OF_DECODERS = {"written_text"}


def test_every_step_is_among_them() -> None:
    steps = {step["step"] for each in BUNDLES.values() for one in each for side in ("pre", "post")
             for step in one.get(side, ())}  # fmt: skip
    assert PROVIDED.keys() <= steps | OF_DECODERS


LOAD = """
import json, sys
from pdl.runtime import load
steps = [step for path in sys.argv[1:] for step in [load(path).pipeline.input]]
print(json.dumps([sorted(sys.modules), [type(step).__module__ for step in steps]]))
"""


@pytest.mark.parametrize("suite", SUITES)
def test_loading_a_bundle_imports_nothing_heavy(suite: str, tmp_path: Path) -> None:
    paths = []
    for number, one in enumerate(BUNDLES[suite]):
        program, arrays = made.parts_of("conv")
        pipeline = {"pre": {"image": one["pre"]}, "post": {"y": one.get("post", [])}}
        assert requires(pipeline) == [suite], sorted(names(pipeline))
        paths.append(tmp_path / f"{number}.pdl")
        constants, vocabularies = one.get("constants", {}), {"words": WORDS}
        made_of = bundle.pack(program, arrays, pipeline=pipeline, vocabularies=vocabularies, constants=constants)
        paths[-1].write_bytes(made_of)
    done = subprocess.run([sys.executable, "-c", LOAD, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules, homes = json.loads(done.stdout)
    heavy = [name for name in modules for each in HEAVY if name == each or name.startswith(f"{each}.")]
    assert not heavy
    light = closure({each.value.partition(":")[0] for each in PROVIDED.values() if each.distribution == suite})
    own = suite.replace("-", "_")
    assert {name for name in modules if name.partition(".")[0] == own} <= light.keys()
    assert pdl.__name__ in modules
    assert any(home.startswith(own) for home in homes) or suite in ("pdl-cv", "pdl-ocr")
