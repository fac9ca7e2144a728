"""A training step of a small GPT, pdl against PyTorch eager and compiled: forward, backward, AdamW.

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.13.0 numpy
    python tools/bench/lm_train.py --torch /tmp/torch/bin/python                 # fp32 and bf16, 2 threads
    python tools/bench/lm_train.py --torch /tmp/torch/bin/python --precision bf16 --rounds 3 --steps 4

The net is GPT-2's form: 6 layers, 384 wide, 6 heads, 65 tokens, batches of 16 windows of 256 tokens, no dropout; in
PyTorch with scaled_dot_product_attention, cross_entropy and AdamW(foreach). Sides are processes of their own that take
turns, so that a busy machine is busy for all; a number is the best round of the mean of its steps, in milliseconds,
after two that warm up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

LENGTH, VOCABULARY = 256, 65
DIM, LAYERS, HEADS = 384, 6, 6

TORCH = """
import json, sys, time
import numpy as np, torch
import torch.nn.functional as F
from torch import nn
sizes = json.loads(sys.argv[1])
torch.set_num_threads(sizes["threads"])
D, L, H, V, T, N = (sizes[k] for k in ("dim", "layers", "heads", "vocabulary", "length", "batch"))
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (p.view(n, t, H, D // H).transpose(1, 2) for p in self.qkv(self.n1(x)).split(D, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, D)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(V, D), nn.Parameter(torch.zeros(T, D))
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(L)), nn.LayerNorm(D)
    def forward(self, tokens, targets):
        x = self.words(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy((self.norm(x) @ self.words.weight.T).view(-1, V), targets.view(-1))
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
call = torch.compile(net) if sizes["compiled"] else net
rng = np.random.default_rng(0)
batches = [torch.from_numpy(rng.integers(0, V, (2, N, T))) for _ in range(4)]
def step(i):
    tokens, targets = batches[i % 4]
    with torch.autocast("cpu", torch.bfloat16, enabled=sizes["bf16"]):
        loss = call(tokens, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())
"""

LOOP = """
for i in range(2): step(i)
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    count = int(line)
    begin = time.perf_counter()
    for i in range(count): loss = step(i)
    print(json.dumps([(time.perf_counter() - begin) / count * 1e3, loss]), flush=True)
"""

PDL = """
import json, sys, time
import numpy as np
import pdl
from pdl import optim, threads
from pdl.train import Loss, Task, Trainer, TrainSettings
from pdl_nlp.models import GPT
sizes = json.loads(sys.argv[1])
threads.set_num_threads(sizes["threads"])
D, L, H, V, T, N = (sizes[k] for k in ("dim", "layers", "heads", "vocabulary", "length", "batch"))
pdl.seed(0)
net = GPT(V, dim=D, layers=L, heads=H, max_length=T)
rng = np.random.default_rng(0)
batches = [rng.integers(0, V, (2, N, T)) for _ in range(4)]
class Both(Task):
    def step(self, model, batch):
        tokens, targets = (pdl.as_tensor(x) for x in batch)
        return Loss(model.loss(tokens, targets), float(N * T))
settings = TrainSettings(epochs=1, precision="bf16" if sizes["bf16"] else "fp32")
trainer = Trainer(Both(), net, optim.AdamW(net, lr=1e-3), {"train": batches}, settings)
net.train()
def step(i):
    trainer.gradients([tuple(batches[i % 4])])
    trainer.update()
    return trainer.last.loss
"""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", type=Path, help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    sizes = {"dim": DIM, "layers": LAYERS, "heads": HEADS, "vocabulary": VOCABULARY, "length": LENGTH}
    sizes["batch"] = args.batch
    sizes |= {"threads": args.threads}
    print(f"{'precision':10}{'side':18}{'ms a step':>10}{'tokens/s':>10}{'ratio':>7}{'loss':>8}")
    for precision in args.precision.split(","):
        own = {**sizes, "bf16": precision == "bf16", "compiled": False}
        sides = {"pdl": [sys.executable, "-c", PDL + LOOP, json.dumps(own)]}
        if args.torch is not None:
            for name, compiled in (("PyTorch eager", False), ("PyTorch compiled", True)):
                sides[name] = [str(args.torch), "-c", TORCH + LOOP, json.dumps({**own, "compiled": compiled})]
        running = {name: subprocess.Popen(command, stdin=-1, stdout=-1, text=True) for name, command in sides.items()}
        for each in running.values():
            assert each.stdout is not None
            assert json.loads(each.stdout.readline()) == "ready"
        best = dict.fromkeys(running, (float("inf"), 0.0))
        for _ in range(args.rounds):
            for name, each in running.items():
                assert each.stdin is not None
                assert each.stdout is not None
                each.stdin.write(f"{args.steps}\n")
                each.stdin.flush()
                taken, loss = json.loads(each.stdout.readline())
                best[name] = min(best[name], (taken, loss))
        for name, (taken, loss) in best.items():
            running[name].terminate()
            ratio = taken / best["pdl"][0]
            rate = args.batch * LENGTH / taken * 1e3
            print(f"{precision:10}{name:18}{taken:10.1f}{rate:10.0f}{ratio:7.2f}{loss:8.4f}")


if __name__ == "__main__":
    main()
