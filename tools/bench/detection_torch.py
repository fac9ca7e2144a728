"""The detectors of the training race in PyTorch: torchvision's own, and YOLOX and PicoDet, whose nets are those that
the tests compare with, and whose losses are here, vectorised as the authors' code is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import detection_scenes as scenes
import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[2] / "tests/cv/models/torch_nets"))

Tensor = torch.Tensor
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
PRIOR = -math.log(99)  # bias of classes in fresh nets: a probability of 1 %


# -- boxes -------------------------------------------------------------------------------------------------------------
def overlaps(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Intersections over unions and unions of boxes [..., 4] that fit by broadcasting, and the areas of their hulls."""
    shared = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    areas = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    union = areas - shared
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    return shared / union.clamp(min=1e-9), union, hull


def inside(points: Tensor, boxes: Tensor) -> Tensor:
    """Whether points [A, 2] lie in boxes [..., M, 4]: bool [..., M, A]."""
    low, high = points - boxes[..., None, :2], boxes[..., None, 2:] - points
    return torch.cat([low, high], -1).amin(-1) > 0


# -- YOLOX -------------------------------------------------------------------------------------------------------------
def yolox() -> tuple[nn.Module, Loss]:
    """YOLOX-tiny (arXiv 2107.08430)."""
    from _detection import cells, rows
    from yolox import NETS

    net: Any = NETS["yolox_tiny"]()
    for last in (*net.head.cls_preds, *net.head.obj_preds):
        nn.init.constant_(last.bias, PRIOR)

    def loss(images: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        head, maps, found = net.head, net.backbone(images), []
        for i, x in enumerate(maps):
            stem = head.stems[i](x)
            y = head.reg_convs[i](stem)
            found.append(
                torch.cat([head.reg_preds[i](y), head.obj_preds[i](y), head.cls_preds[i](head.cls_convs[i](stem))], 1)
            )
        points, sides = cells(maps, (8, 16, 32))
        y = rows(found)
        middle, half = y[..., :2] * sides + points - sides / 2, y[..., 2:4].exp() * sides / 2
        return yolox_loss(torch.cat([middle - half, middle + half], -1), y[..., 4:5], y[..., 5:], points, sides[:, 0],
                          boxes, labels)  # fmt: skip

    return net, loss


def yolox_loss(
    found: Tensor, objects: Tensor, classes: Tensor, points: Tensor, sides: Tensor, boxes: Tensor, labels: Tensor
) -> Tensor:
    """SimOTA for each image; then the sums over all of them."""
    taken, wanted, quality, masks = [], [], [], []
    for n in range(len(found)):
        real = labels[n] >= 0
        mask, which, iou = simota(points, sides, found[n].detach(), objects[n].detach(), classes[n].detach(),
                                  boxes[n, real], labels[n, real])  # fmt: skip
        masks.append(mask)
        taken.append(boxes[n, real][which])
        wanted.append(labels[n, real][which])
        quality.append(iou)
    mask, truth, iou = torch.stack(masks), torch.cat(taken), torch.cat(quality)
    targets = F.one_hot(torch.cat(wanted), classes.shape[2]) * iou[:, None]
    entropy = F.binary_cross_entropy_with_logits
    share = overlaps(found[mask], truth)[0]
    total = 5 * (1 - share**2).sum() + entropy(objects, mask[..., None].float(), reduction="sum")
    return (total + entropy(classes[mask], targets, reduction="sum")) / max(len(truth), 1)


@torch.no_grad()
def simota(
    points: Tensor, sides: Tensor, found: Tensor, objects: Tensor, classes: Tensor, boxes: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The points of an image that are to find something (bool [A]), which box each, and the IoU with it."""
    within = inside(points, boxes)
    near = (points - (boxes[:, None, :2] + boxes[:, None, 2:]) / 2).abs().amax(-1) < 2.5 * sides
    some = (within | near).any(0)
    iou = overlaps(boxes[:, None], found[some])[0]
    p = (classes[some].sigmoid() * objects[some].sigmoid()).sqrt()
    hot = F.one_hot(labels, classes.shape[1]).float()[:, None].expand(-1, len(p), -1)
    cost = F.binary_cross_entropy(p.expand(len(boxes), -1, -1), hot, reduction="none").sum(-1)
    cost = cost - 3 * (iou + 1e-8).log() + 1e5 * ~(within & near)[:, some]
    counts = iou.topk(min(10, iou.shape[1]), 1).values.sum(1).int().clamp(min=1).tolist()
    match = torch.zeros_like(cost, dtype=torch.bool)
    for row, (each, count) in enumerate(zip(cost, counts, strict=True)):
        match[row, each.topk(count, largest=False).indices] = True
    several = match.sum(0) > 1
    if several.any():
        best = cost[:, several].argmin(0)
        match[:, several] = F.one_hot(best, len(boxes)).T.bool()
    chosen = match.any(0)
    mask = some.clone()
    mask[some] = chosen
    return mask, match[:, chosen].int().argmax(0), (match * iou).sum(0)[chosen]


# -- PicoDet -----------------------------------------------------------------------------------------------------------
def picodet() -> tuple[nn.Module, Loss]:
    """PicoDet-S (arXiv 2111.00902) with a task-aligned head."""
    from _detection import cells, rows, run
    from picodet import NETS

    net: Any = NETS["picodet_s"]()
    head = net.head
    for i in range(4):
        nn.init.normal_(getattr(head, f"head_cls{i}").weight, std=0.01)
        nn.init.constant_(getattr(head, f"head_cls{i}").bias, PRIOR)

    def loss(images: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        maps, classes, agreement, distances = net.neck(net.backbone(images)), [], [], []
        for i, x in enumerate(maps):
            feat = head.conv_feat
            for dw, pw in zip(getattr(feat, f"cls_conv_dw{i}"), getattr(feat, f"cls_conv_pw{i}"), strict=True):
                x = run(pw, run(dw, x, F.hardswish, "norm"), F.hardswish, "norm")
            gate = feat.se[i].fc(x.mean((2, 3), keepdim=True)).sigmoid()
            gated = run(feat.se[i].conv, x * gate, F.hardswish, "norm")
            classes.append(getattr(head, f"head_cls{i}")(gated))
            agreement.append(head.cls_align[i](x))
            distances.append(getattr(head, f"head_reg{i}")(gated))
        scores = (rows(classes).sigmoid() * rows(agreement).sigmoid() + 1e-9).sqrt()
        return picodet_loss(scores, rows(distances), *cells(maps, (8, 16, 32, 64)), boxes, labels)

    return net, loss


def picodet_loss(
    scores: Tensor, distances: Tensor, points: Tensor, sides: Tensor, boxes: Tensor, labels: Tensor
) -> Tensor:
    """Varifocal loss, 1 - GIoU and distribution focal loss, by task-aligned assignment."""
    logits = distances.unflatten(2, (4, 8))
    away = (logits.softmax(-1) * torch.arange(8.0)).sum(-1) * sides
    found = torch.cat([points - away[..., :2], points + away[..., 2:]], -1)
    mask, which, quality = aligned(points, found.detach(), scores.detach(), boxes, labels)
    wanted = F.one_hot(labels.gather(1, which).clamp(min=0), scores.shape[2]) * quality[..., None]
    p = scores.clamp(1e-7, 1 - 1e-6)
    weight = torch.where(wanted > 0, wanted, 0.75 * p**2)
    total = (F.binary_cross_entropy(p, wanted, reduction="none") * weight).sum()
    truth, weight = boxes.gather(1, which[..., None].expand(-1, -1, 4))[mask], quality[mask]
    iou, union, hull = overlaps(found[mask], truth)
    total = total + 2.5 * ((1 - iou + (hull - union) / hull) * weight).sum()
    at, side = points.expand(len(scores), -1, -1)[mask], sides.expand(len(scores), -1, 1)[mask]
    goal = (torch.cat([at - truth[:, :2], truth[:, 2:] - at], -1) / side).clamp(0, 7 - 0.1)
    low = goal.long()
    share = logits[mask].flatten(0, 1)
    spread = F.cross_entropy(share, low.flatten(), reduction="none") * (low + 1 - goal).flatten()
    spread = spread + F.cross_entropy(share, low.flatten() + 1, reduction="none") * (goal - low).flatten()
    total = total + 0.5 * (spread.reshape(-1, 4).mean(1) * weight).sum()
    return total / quality.sum().clamp(min=1)


@torch.no_grad()
def aligned(
    points: Tensor, found: Tensor, scores: Tensor, boxes: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Task-aligned assignment (arXiv 2108.07755): bool [N, A], which box each, and the target of its score."""
    iou = overlaps(boxes[:, :, None], found[:, None])[0]
    own = labels.clamp(min=0)[..., None].expand(-1, -1, scores.shape[1])
    metric = scores.transpose(1, 2).gather(1, own) * iou**6
    allowed = inside(points, boxes) & (labels >= 0)[..., None]
    best = (metric * allowed).topk(13, dim=-1).indices
    match = torch.zeros_like(allowed).scatter_(2, best, True) & allowed & (metric > 0)
    several = match.sum(1, keepdim=True) > 1
    first = F.one_hot(iou.argmax(1), boxes.shape[1]).transpose(1, 2).bool()
    match = torch.where(several, first & allowed, match)
    metric, iou = metric * match, iou * match
    quality = metric / metric.amax(-1, keepdim=True).clamp(min=1e-9) * iou.amax(-1, keepdim=True)
    return match.any(1), match.int().argmax(1), quality.amax(1)


# -- torchvision -------------------------------------------------------------------------------------------------------
class Ready(nn.Module):
    """Images that are as the net wants them: in the place of torchvision's transform, whose time does not count."""

    def forward(self, images: Tensor, targets: Any) -> Any:
        """A batch with the sizes of its images."""
        from torchvision.models.detection.image_list import ImageList

        return ImageList(images, [tuple(images.shape[-2:])] * len(images)), targets

    def postprocess(self, found: Any, *sizes: Any) -> Any:
        """Boxes are where they are."""
        return found


def torchvisions(name: str) -> tuple[nn.Module, Loss]:
    """A net of torchvision's, with its own loss."""
    from torchvision import extension
    from torchvision.models import detection

    if not extension._has_ops():
        raise SystemExit(
            "torchvision's compiled ops do not load beside this PyTorch: install both from one index, such as "
            "pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu"
        )
    net: Any = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=91)
    net.transform = Ready()

    def loss(images: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        targets = [{"boxes": b[k >= 0], "labels": k[k >= 0] + 1} for b, k in zip(boxes, labels, strict=True)]
        return sum(net(images, targets).values())

    return net, loss


NETS: dict[str, Callable[[], tuple[nn.Module, Loss]]] = {
    "ssdlite320_mobilenet_v3_large": lambda: torchvisions("ssdlite320_mobilenet_v3_large"),
    "fasterrcnn_mobilenet_v3_large_320_fpn": lambda: torchvisions("fasterrcnn_mobilenet_v3_large_320_fpn"),
    "yolox_tiny": yolox,
    "picodet_s": picodet,
}


def write_weights(name: str, folder: Path) -> None:
    """Fresh weights, by PyTorch's names."""
    import numpy as np

    torch.manual_seed(0)
    net, _ = NETS[name]()
    np.savez(folder / f"{name}.npz", **{key: value.numpy() for key, value in net.state_dict().items()})


def side(name: str, mode: str, folder: Path, threads: int) -> tuple[Callable[[], float], int]:
    """A training step, which gives its loss, and the number of parameters."""
    import numpy as np

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net, loss_of = NETS[name]()
    with np.load(folder / f"{name}.npz") as state:
        net.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    layout = torch.channels_last if mode == "nhwc" else torch.contiguous_format
    net = net.train().to(memory_format=layout)
    images, boxes, labels = map(torch.from_numpy, scenes.batch())
    images = images.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), **scenes.SGD, fused=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(images, boxes, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, sum(p.numel() for p in net.parameters())


if __name__ == "__main__":
    write_weights(sys.argv[1], Path(sys.argv[2]))
