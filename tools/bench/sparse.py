"""Products whose weights are mostly zeros: the forms of pdl, and PyTorch's dense and sparse products.

    python tools/bench/sparse.py --torch-python PYTHON

Zeros come in blocks of one input and 16 outputs, or each for itself; a product of pdl's is timed in its best dense form
and as blocks, one thread, weights on the way from where a net of 4 MB keeps them. `chosen` is what the runtime takes by
its estimates. PyTorch computes x W' dense and with W in compressed sparse rows (CSR), which knows no convolution.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from typing import Any

import numpy as np
from train import table

#: rows, inputs, outputs of linear layers; size, channels in and out, taps, stride of convolutions
LINEAR = [(1, 768, 768), (1, 768, 3072), (64, 768, 768), (64, 768, 3072), (196, 192, 768)]
CONVOLUTIONS = [(28, 192, 64, 1, 1), (14, 96, 576, 1, 1), (7, 576, 160, 1, 1), (8, 64, 64, 3, 1), (28, 128, 256, 3, 2)]
SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
HELD = 4 << 20

PEER = """
import json, sys, time, warnings
import numpy as np, torch
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
found = []
def fastest(f):
    f()
    best = 1e9
    for _ in range(12):
        begin = time.thread_time()
        f()
        best = min(best, time.thread_time() - begin)
    return best
with torch.inference_mode():
    for m, k, n, block, zeros in json.load(sys.stdin):
        keep = np.random.default_rng(0).random((k, -(-n // block))) >= zeros
        w = torch.tensor(np.repeat(keep, block, axis=1)[:, :n].astype(np.float32)).T.contiguous()
        x, xt = torch.ones(m, k), torch.ones(k, m)
        rows = w.to_sparse_csr()
        found.append([fastest(lambda: torch.nn.functional.linear(x, w)), fastest(lambda: rows @ xt)])
print(json.dumps(found))
"""


def products() -> list[Any]:
    """The dense ones, as the runtime knows them."""
    from pdl.dtype import float32
    from pdl.program.passes.costs import Product

    made = [Product(float32, (m, k), (k, n), (m, n)) for m, k, n in LINEAR]
    for size, c, o, taps, stride in CONVOLUTIONS:
        pad, out = taps // 2, (size + 2 * (taps // 2) - taps) // stride + 1
        window = (stride, stride), ((pad, pad), (pad, pad)), (1, 1)
        made.append(Product(float32, (1, size, size, c), (taps, taps, c, o), (1, out, out, o), *window))
    return made


def blocks_left(product: Any, block: int, zeros: float) -> int:
    """Blocks of 16 outputs that hold a number, where so many of `block` outputs are zeros."""
    rows, outputs = int(np.prod(product.w[:-1])), product.w[-1]
    keep = np.random.default_rng(0).random((rows, -(-outputs // block))) >= zeros
    whole = np.repeat(keep, block, axis=1)[:, :outputs]
    return int(np.logical_or.reduceat(whole, range(0, outputs, 16), axis=1).sum())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", help="a Python that has PyTorch")
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES), help="of zeros")
    args = parser.parse_args()
    os.environ["PDL_NUM_THREADS"] = "1"
    from pdl import machine
    from pdl.dtype import uint8
    from pdl.machine.measure import filled
    from pdl.program.passes.costs import estimates
    from pdl.program.passes.tuning import race

    figures, weights = machine.current(True), filled((HELD,), uint8, 1)
    cases = [(p, block, zeros) for p in products() for block in (16, 1) for zeros in args.shares]
    peers: list[Any] = [None] * len(cases)
    if args.torch_python:
        asked = [[p.x[0], *p.w, block, zeros] if len(p.w) == 2 else [1, 1, 1, 1, 0.0] for p, block, zeros in cases]
        done = subprocess.run(
            [args.torch_python, "-c", PEER], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True
        )
        peers = json.loads(done.stdout)
    rows = []
    for (product, block, zeros), peer in zip(cases, peers, strict=True):
        given = product._replace(kept=blocks_left(product, block, zeros))
        guessed = estimates(given, figures, 1, HELD)
        times = race(given, guessed, weights)
        dense, sparse = min(t for form, t in times.items() if form != "blocks"), times["blocks"]
        chosen = min(guessed, key=guessed.__getitem__)
        numbers = [f"{1e6 * dense:.1f}", f"{1e6 * sparse:.1f}", f"{dense / sparse:.2f}", chosen]
        if args.torch_python:
            numbers += [f"{1e6 * t:.1f}" for t in peer] if len(product.w) == 2 else ["", ""]
        rows.append([str(product), f"{block}", f"{zeros:.0%}", *numbers])
    head = ["product", "zeros by", "zeros", "dense us", "blocks us", "times", "chosen"]
    print(table([*head, *(["torch dense us", "torch CSR us"] if args.torch_python else [])], rows))


if __name__ == "__main__":
    main()
