"""Nets of the zoo in PyTorch, written from their papers and torchvision's definitions. Run with a Python that has
torch, not with pdl's.

python torch_nets FOLDER     writes FOLDER/<variant>.npz: random weights and statistics, an input, and torch's output

Every module beside this one has NETS: variant of pdl's -> function that makes torch's, and perhaps SIZES: variant ->
side of the images (64 where none is given), and perhaps CALIBRATED, if the statistics are to be those of a batch.
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def shake(net, size):
    """Scales, shifts and statistics as some training might leave them: those of a batch, so that what an image shows
    reaches the end; shifted so far that most rectifiers let everything pass, or deep nets would magnify rounding.
    """
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias, 1.0, 0.1)
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            net.train()(torch.randn(8, 3, size, size))
    return net.eval()


def calibrate(net, size):
    """Statistics of a batch of noise, so that what an image shows reaches the end."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        net.train()(torch.randn(8, 3, size, size))
    return net.eval()


def main(folder):
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        family = importlib.import_module(file.stem)
        for name, make in family.NETS.items():
            torch.manual_seed(0)
            size = getattr(family, "SIZES", {}).get(name, 64)
            net = shake(make(), size)
            if getattr(family, "CALIBRATED", False):
                calibrate(net, size)
            x = torch.randn(2, 3, size, size)
            with torch.no_grad():
                y = net(x)
            state = {f"state/{k}": v.numpy() for k, v in net.state_dict().items()}
            np.savez(folder / f"{name}.npz", x=x.permute(0, 2, 3, 1).numpy(), y=y.numpy(), **state)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
