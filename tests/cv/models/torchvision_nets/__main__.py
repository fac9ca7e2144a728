"""Detectors of torchvision. Run with a Python that has torch and torchvision, not with pdl's; its compiled ops may be
missing.

python torchvision_nets FOLDER     writes FOLDER/<variant>.npz: random weights and statistics, images, what torchvision
                                   finds in them, and the regions that its first net proposes
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
#: names and signatures of the ops that torchvision's Python looks for when it is imported
OPS = """
    nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
    qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
    roi_align(Tensor i, Tensor r, float s, SymInt h, SymInt w, int n, bool a) -> Tensor
    _roi_align_backward(Tensor g, Tensor r, float s, SymInt h, SymInt w, SymInt a, SymInt b, SymInt c, SymInt d, int n,
        bool e) -> Tensor
    ps_roi_align(Tensor i, Tensor r, float s, SymInt h, SymInt w, int n) -> (Tensor, Tensor)
    _ps_roi_align_backward(Tensor g, Tensor r, Tensor m, float s, SymInt h, SymInt w, int n, SymInt a, SymInt b,
        SymInt c, SymInt d) -> Tensor
    roi_pool(Tensor i, Tensor r, float s, SymInt h, SymInt w) -> (Tensor, Tensor)
    _roi_pool_backward(Tensor g, Tensor r, Tensor m, float s, SymInt h, SymInt w, SymInt a, SymInt b, SymInt c,
        SymInt d) -> Tensor
    ps_roi_pool(Tensor i, Tensor r, float s, SymInt h, SymInt w) -> (Tensor, Tensor)
    _ps_roi_pool_backward(Tensor g, Tensor r, Tensor m, float s, SymInt h, SymInt w, SymInt a, SymInt b, SymInt c,
        SymInt d) -> Tensor
    deform_conv2d(Tensor i, Tensor w, Tensor o, Tensor m, Tensor b, SymInt c, SymInt d, SymInt e, SymInt f, SymInt g,
        SymInt h, SymInt j, SymInt k, bool u) -> Tensor
    _deform_conv2d_backward(Tensor g, Tensor i, Tensor w, Tensor o, Tensor m, Tensor b, SymInt c, SymInt d, SymInt e,
        SymInt f, SymInt h, SymInt j, SymInt k, SymInt l, bool u) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
"""
RCNN = {"min_size": 192, "max_size": 256, "rpn_pre_nms_top_n_test": 150, "rpn_post_nms_top_n_test": 150}
NETS = {
    "ssd300_vgg16": (300, 300),
    "ssdlite320_mobilenet_v3_large": (320, 320),
    "fasterrcnn_mobilenet_v3_large_320_fpn": (192, 256),
}


def nms(boxes, scores, threshold):
    """Greedy suppression, as the compiled op does it."""
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    gone, kept = torch.zeros(len(boxes), dtype=torch.bool), []
    for i in scores.sort(stable=True, descending=True)[1].tolist():
        if gone[i]:
            continue
        kept.append(i)
        corner = torch.minimum(boxes[i, 2:], boxes[:, 2:]) - torch.maximum(boxes[i, :2], boxes[:, :2])
        shared = corner.clamp(min=0).prod(1)
        gone |= shared / (area[i] + area - shared) > threshold
    return torch.tensor(kept, dtype=torch.int64)


def models():
    """torchvision's detectors; where its compiled ops are missing or do not load, with Python in their place."""
    (folder,) = importlib.util.find_spec("torchvision").submodule_search_locations
    try:
        torch.ops.load_library(next(Path(folder).glob("_C*.so")))
    except (StopIteration, OSError):
        for line in declarations():
            LIBRARY.define(line)
        LIBRARY.impl("nms", nms, "CPU")
    import torchvision
    from torchvision.ops import boxes, poolers
    from torchvision.ops.roi_align import _roi_align

    def roi_align(x, rois, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
        return _roi_align(x, rois, spatial_scale, *output_size, sampling_ratio, aligned)

    boxes._assert_has_ops = lambda: None
    poolers.roi_align = roi_align
    return torchvision.models.detection


def declarations():
    """The signatures one by one."""
    found = []
    for line in OPS.strip().splitlines():
        if line.startswith("        "):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def shaken(net, size):
    """Statistics of a batch, and scores that differ from place to place."""
    for name, norm in net.named_modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias, 0.3, 0.1)
            norm.weight.data *= 0.2 if name.endswith("bn3") else 1.0
            norm.momentum = 1.0
    with torch.no_grad():
        net.train().backbone(torch.randn(4, 3, *size))
    if hasattr(net, "rpn"):
        plain = not any(isinstance(layer, nn.BatchNorm2d) for layer in net.roi_heads.box_head.modules())
        strong = 0.3 if not plain or net.backbone.fpn.inner_blocks[0][0].in_channels < 256 else 0.01
        nn.init.normal_(net.rpn.head.cls_logits.weight, std=0.1)
        nn.init.normal_(net.rpn.head.bbox_pred.weight, std=0.02)
        nn.init.normal_(net.roi_heads.box_predictor.cls_score.weight, std=strong)
        nn.init.normal_(net.roi_heads.box_predictor.bbox_pred.weight, std=0.1)
    return net.eval()


def found(net, x):
    """What a net says of images, as arrays by name."""
    size = tuple(x.shape[2:])
    with torch.no_grad():
        maps = net.backbone(x)
        images = image_list(x, size)
        if not hasattr(net, "rpn"):
            said = net.head(list(maps.values()))
            anchors = net.anchor_generator(images, list(maps.values()))[0]
            return {"anchors": anchors, "logits": said["cls_logits"], "shifts": said["bbox_regression"]}
        proposals, _ = net.rpn(images, maps)
        answers, _ = net.roi_heads(maps, proposals, images.image_sizes)
    return {"proposals": proposals[0], **answers[0]}


def image_list(x, size):
    from torchvision.models.detection.image_list import ImageList

    return ImageList(x, [size] * len(x))


def main(folder):
    detection = models()
    for name, size in NETS.items():
        torch.manual_seed(0)
        options = RCNN | {"image_mean": [0, 0, 0], "image_std": [1, 1, 1]} if "rcnn" in name else {}
        net = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=6, **options)
        x = torch.randn(1, 3, *size)
        made = {key: value.numpy() for key, value in found(shaken(net, size), x).items()}
        state = {f"state/{key}": value.numpy() for key, value in net.state_dict().items()}
        np.savez(folder / f"{name}.npz", x=x.permute(0, 2, 3, 1).numpy(), **made, **state)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
