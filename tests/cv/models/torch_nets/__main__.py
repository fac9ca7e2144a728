"""Nets of the zoo in PyTorch, written from their papers and torchvision's definitions. Run with a Python that has
torch, not with pdl's.

python torch_nets FOLDER     writes FOLDER/<variant>.npz: random weights and statistics, an input, and torch's output

Every module beside this one has NETS: variant of pdl's -> function that makes torch's, and perhaps SIZES: variant ->
side of the pictures (64 where none is given).
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def shake(net):
    """Statistics and scales as some training might leave them."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return net


def main(folder):
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        family = importlib.import_module(file.stem)
        for name, make in family.NETS.items():
            torch.manual_seed(0)
            net = shake(make().eval())
            size = getattr(family, "SIZES", {}).get(name, 64)
            x = torch.randn(2, 3, size, size)
            with torch.no_grad():
                y = net(x)
            state = {f"state/{k}": v.numpy() for k, v in net.state_dict().items()}
            np.savez(folder / f"{name}.npz", x=x.permute(0, 2, 3, 1).numpy(), y=y.numpy(), **state)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
