"""Does a net with somebody else's weights answer as PyTorch does with the same file?

    python tools/measure_agreement.py cv/mobilenet_v2_imagenet photos/*.png --net torch_nets/mobilenet.py:v2

Pictures go through the bundle's own preparation; its outputs and those of the PyTorch net for the same arrays are
compared: top-1 agreement, and the largest difference as a part of the largest output. PyTorch runs in the Python that
PDL_TORCH_PYTHON names. The net is a function of a file of tests/cv/models, or of any other one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pdl import hub
from pdl.export import bundle_of
from pdl.runtime.session import load

NETS = Path(__file__).parents[1] / "tests" / "cv" / "models"
SCRIPT = """
import runpy, sys
import numpy as np, torch
file, function, weights, arrays = sys.argv[1:]
net = runpy.run_path(file)[function]()
net.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
net.eval()
given = np.load(arrays)
with torch.no_grad():
    made = {name: net(torch.from_numpy(given[name]).permute(0, 3, 1, 2)).numpy() for name in given.files}
np.savez(arrays, **made)
print(torch.__version__)
"""


def agreement(name: str, pictures: list[str], net: str, python: str) -> dict[str, Any]:
    """Pictures, share of equal answers, largest difference of outputs, and PyTorch's version."""
    entry = hub.entry(name)
    session = load(bundle_of(name))
    assert session.pipeline is not None
    prepared = [session.pipeline.prepare(picture) for picture in pictures]
    file, _, function = net.partition(":")
    path = NETS / file if (NETS / file).is_file() else Path(file)
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "arrays.npz"
        np.savez(arrays, **{str(i): next(iter(x.values()))[None] for i, x in enumerate(prepared)})
        command = [python, "-c", SCRIPT, str(path), function, str(hub.resolve(entry.name)), str(arrays)]
        version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        theirs = [np.load(arrays)[str(i)] for i in range(len(prepared))]
    ours = [next(iter(session.run({k: v[None] for k, v in x.items()}).values())) for x in prepared]
    differences = [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, theirs, strict=True)]
    same = [int(a.argmax()) == int(b.argmax()) for a, b in zip(ours, theirs, strict=True)]
    return {"pictures": len(pictures), "top1": float(np.mean(same)), "difference": max(differences), "torch": version}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("pictures", nargs="+")
    parser.add_argument("--net", required=True, help="FILE:FUNCTION, the net in PyTorch")
    args = parser.parse_args()
    print(json.dumps(agreement(args.name, args.pictures, args.net, os.environ.get("PDL_TORCH_PYTHON", "python3"))))


if __name__ == "__main__":
    main()
