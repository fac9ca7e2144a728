"""Nets of torchvision and timm as ONNX files, for races and for tests of the import: random weights, no downloads.

    pip install torch==2.13.0 torchvision==0.28.0 timm==1.0.31 onnx onnxscript
    python tools/bench/foreign_nets.py NETS                                 # all of them, opset 17, batch 1
    python tools/bench/foreign_nets.py NETS --only resnet50 swin_t --batch dynamic --exporter dynamo

Writes NETS/NAME.onnx (batch 1, opset 17), NAME-dynamic.onnx, NAME-dynamo.onnx, NAME-dynamo-dynamic.onnx. Batch norms
get the statistics of a batch of noise, so that activations have the sizes of a trained net's. The network is not used,
and torchvision needs no native build: its two ops of detection nets are given here in PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

#: name -> (library, constructor, image size)
NETS: dict[str, tuple[str, str, int]] = {
    **{name: ("torchvision", name, 224) for name in (
        "resnet50", "resnext50_32x4d", "regnet_y_400mf", "densenet121", "googlenet", "mobilenet_v2",
        "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "squeezenet1_1",
        "efficientnet_b0", "efficientnet_v2_s", "convnext_tiny", "swin_t", "swin_v2_t", "vit_b_16", "maxvit_t",
        "vgg11", "alexnet",
    )},
    "inception_v3": ("torchvision", "inception_v3", 299),
    **{name: ("segmentation", name, 256) for name in (
        "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50")},
    **{name: ("detection", name, 320) for name in (
        "fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn", "ssdlite320_mobilenet_v3_large")},
    **{name: ("timm", name, 224) for name in (
        "deit_tiny_patch16_224", "ghostnet_100", "hrnet_w18_small", "eca_nfnet_l0", "poolformer_s12", "mobilevit_xs",
        "edgenext_x_small", "fastvit_t8", "efficientformer_l1", "levit_128s", "xcit_nano_12_p16_224", "coat_tiny",
        "mixer_s16_224", "convnextv2_atto", "repvit_m1", "mobilenetv4_conv_small", "pvt_v2_b0", "tiny_vit_5m_224",
    )},
    "dm_nfnet_f0": ("timm", "dm_nfnet_f0", 192),
    "eva02_tiny_patch14_224": ("timm", "eva02_tiny_patch14_224", 224),
}  # fmt: skip


# -- torchvision without its native part -------------------------------------------------------------------------------
def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices [K] of the boxes [N, 4] (corners) that hard non-maximum suppression keeps, by descending score."""
    order = scores.argsort(descending=True, stable=True)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while len(order):
        first, rest = order[0], order[1:]
        kept.append(first)
        low, high = torch.maximum(boxes[first, :2], boxes[rest, :2]), torch.minimum(boxes[first, 2:], boxes[rest, 2:])
        common = (high - low).clamp(min=0).prod(1)
        order = rest[common / (area[first] + area[rest] - common) <= iou_threshold]
    return torch.stack(kept) if kept else order.new_zeros(0)


def roi_align(
    x: torch.Tensor, rois: torch.Tensor, scale: float, height: int, width: int, samples: int, aligned: bool
) -> torch.Tensor:
    """Mean of `samples` x `samples` bilinear samples in every cell of every region (He et al., arXiv 1703.06870)."""
    offset = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = ((rois[:, i] * scale - offset)[:, None] for i in (1, 2, 3, 4))
    w, h = x2 - x1, y2 - y1
    if not aligned:
        w, h = w.clamp(min=1), h.clamp(min=1)
    at = [(torch.arange(n * samples) + 0.5) / (n * samples) for n in (height, width)]
    ys, xs = y1 + at[0] * h, x1 + at[1] * w
    outside = ((ys < -1) | (ys > x.shape[2]))[:, :, None] | ((xs < -1) | (xs > x.shape[3]))[:, None, :]
    ys, xs = ys.clamp(0, x.shape[2] - 1), xs.clamp(0, x.shape[3] - 1)
    y0, x0 = ys.floor().long(), xs.floor().long()
    fy, fx = (ys - y0)[:, None, :, None], (xs - x0)[:, None, None, :]
    y9, x9 = (y0 + 1).clamp(max=x.shape[2] - 1), (x0 + 1).clamp(max=x.shape[3] - 1)
    planes = x[rois[:, 0].long()]
    every = torch.arange(len(rois))[:, None, None]

    def sampled(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return planes[every, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)

    top = sampled(y0, x0) * (1 - fx) + sampled(y0, x9) * fx
    bottom = sampled(y9, x0) * (1 - fx) + sampled(y9, x9) * fx
    values = (top * (1 - fy) + bottom * fy).masked_fill(outside[:, None], 0.0)
    return values.reshape(*values.shape[:2], height, samples, width, samples).mean((3, 5))


def native_ops() -> list[torch.library.Library]:
    """Define what torchvision's native part would define; the ops live as long as what is returned."""
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    )
    library.impl("nms", nms, "CPU")
    library.impl("roi_align", roi_align, "CPU")
    return [library]


# -- making and writing ------------------------------------------------------------------------------------------------
def net_of(name: str) -> nn.Module:
    """The net with random weights and settled batch norms, in evaluation mode."""
    library, constructor, size = NETS[name]
    torch.manual_seed(0)
    if library == "timm":
        import timm

        net = timm.create_model(constructor, pretrained=False)
    else:
        import torchvision.models as models

        made = models if library == "torchvision" else getattr(models, library)
        quick = {"init_weights": False, "aux_logits": False} if constructor in ("googlenet", "inception_v3") else {}
        more = {"weights_backbone": None} if library in ("segmentation", "detection") else {}
        net = getattr(made, constructor)(weights=None, **quick, **more)
    if library == "segmentation":
        net = MainHead(net)
    with torch.no_grad():  # heads and scales that training starts at nothing would hide what comes before them
        for weight in net.parameters():
            if weight.abs().max() < 1e-3:
                weight.normal_(std=0.1)
    if library != "detection":
        settle(net, torch.randn(4, 3, size, size))
    return net.eval()


class MainHead(nn.Module):
    """A segmentation net that answers the logits of its main head alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes, H, W] of images [N, 3, H, W]."""
        return self.net(x)["out"]


def settle(net: nn.Module, x: torch.Tensor) -> None:
    """Give batch norms the statistics of a batch."""
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d | nn.BatchNorm1d)]
    for m in norms:
        m.momentum = 1.0
    if norms:
        net.train()
        with torch.no_grad():
            net(x)


def export(name: str, path: Path, *, dynamic: bool, dynamo: bool) -> None:
    """Write one file."""
    library, _, size = NETS[name]
    net = net_of(name)
    x = torch.rand(1, 3, size, size) if library == "detection" else torch.randn(2 if dynamic else 1, 3, size, size)
    arguments: Any = ([x[0]],) if library == "detection" else (x,)
    axes: dict[str, Any] = {}
    if dynamic and dynamo:
        axes = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=256)},)}
    elif dynamic:
        axes = {"dynamic_axes": {"input": {0: "batch"}}}
    with torch.no_grad():
        torch.onnx.export(net, arguments, str(path), opset_version=18 if dynamo else 17, dynamo=dynamo,
                          input_names=["input"], external_data=False, verbose=False, **axes)  # fmt: skip


def main() -> None:
    """Write the files that are not there."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folder", type=Path)
    made.add_argument("--only", nargs="+", choices=list(NETS), default=list(NETS), metavar="NET")
    made.add_argument("--batch", choices=["1", "dynamic"], default="1")
    made.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript")
    args = made.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # it has no form in ONNX
    alive = native_ops()
    dynamic, dynamo = args.batch == "dynamic", args.exporter == "dynamo"
    for name in args.only:
        path = args.folder / f"{name}{'-dynamo' * dynamo}{'-dynamic' * dynamic}.onnx"
        if path.exists() or (dynamic and NETS[name][0] == "detection"):
            continue
        start, draft = time.perf_counter(), path.with_suffix(".draft")
        try:
            export(name, draft, dynamic=dynamic, dynamo=dynamo)
            draft.rename(path)
            print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)
        except Exception as error:  # a net that this exporter cannot write is no fault of the race
            draft.unlink(missing_ok=True)
            print(f"{path.name}: not exported: {str(error).splitlines()[:1]}", file=sys.stderr, flush=True)
    del alive


if __name__ == "__main__":
    main()
