"""The race's workloads in pdl: the image nets are those of pdl_cv, the two for sequences are here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workloads import ADAM, DROPOUT, FEED, HEADS, LAYERS, SESSION, SGD, UNET, WIDTH, WORKLOADS, Side, Workload

import pdl
import pdl_cv
import pdl_ocr
from pdl import nn
from pdl import threads as pdl_threads
from pdl.program import CompiledStep


class Transformer(nn.Module):
    """A classifier of token sequences: embeddings of tokens and places, encoder layers, a linear layer on the first
    token.
    """

    def __init__(self, vocabulary: int, length: int, classes: int) -> None:
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Parameter(pdl.zeros((length, WIDTH)))
        self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        self.encoder = nn.TransformerEncoder(
            WIDTH, HEADS, LAYERS, dim_feedforward=FEED, dropout=DROPOUT, activation="gelu"
        )
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens: pdl.Tensor) -> pdl.Tensor:
        """tokens [N, length] -> logits [N, classes]."""
        x = self.drop(self.norm(self.tokens(tokens) + self.places))
        return self.head(self.encoder(x)[:, 0])  # type: ignore[no-any-return]


class TiedTransformer(Transformer):
    """The same over all tokens of a text: a score for every token to come, with the table of tokens as last weight."""

    def forward(self, tokens: pdl.Tensor) -> pdl.Tensor:
        """tokens [N, length] -> logits [N, length, vocabulary]."""
        x = self.encoder(self.drop(self.norm(self.tokens(tokens) + self.places)))
        return x @ self.tokens.weight.swapaxes(0, 1)  # type: ignore[no-any-return]

    def loss(self, tokens: pdl.Tensor, _: pdl.Tensor) -> pdl.Tensor:
        """Of the next token."""
        return pdl.cross_entropy(self(tokens)[:, :-1].flatten(end=1), tokens[:, 1:].flatten())


class GRU4Rec(nn.Module):
    """The next item of a session: embedding, GRU, and a score for every item from the last state. Hidasi et al., arXiv
    1511.06939.
    """

    def __init__(self, items: int, sparse: bool) -> None:
        self.items = nn.Embedding(items, SESSION, **({"sparse": True} if sparse else {}))
        self.gru, self.head = nn.GRU(SESSION, SESSION), nn.Linear(SESSION, items)

    def forward(self, items: pdl.Tensor) -> pdl.Tensor:
        """items [N, length] -> logits [N, items]."""
        y, _ = self.gru(self.items(items))
        return self.head(y[:, -1])  # type: ignore[no-any-return]


def net_of(name: str, work: Workload, sparse: bool = False) -> nn.Module:
    """The net of a workload with fresh weights."""
    made: dict[str, Callable[[], nn.Module]] = {
        "lenet": lambda: pdl_cv.LeNet(in_channels=1, num_classes=work.classes),
        "resnet20": lambda: pdl_cv.CifarResNet(20, num_classes=work.classes),
        "resnet18": lambda: pdl_cv.ResNet(18, num_classes=work.classes, small_images=True),
        "resnet50": lambda: pdl_cv.ResNet(50, num_classes=work.classes),
        "mobilenetv2": lambda: pdl_cv.MobileNetV2(num_classes=work.classes),
        "transformer": lambda: Transformer(work.vocabulary, work.length, work.classes),
        "gru4rec": lambda: GRU4Rec(work.vocabulary, sparse),
        "crnn": lambda: pdl_ocr.CRNN("vgg", width=0.25, hidden=96, num_classes=work.classes),
        "svtr_lcnet": lambda: pdl_ocr.SVTRLCNet(num_classes=work.classes),
        "unet": lambda: pdl_cv.UNet(width=UNET, num_classes=work.classes),
        "deeplab_v3_plus": lambda: pdl_cv.DeepLabV3Plus(num_classes=work.classes),
    }
    return made[name]()


def modes(work: Workload) -> list[str]:
    """How pdl can train it."""
    found = ["fp32 eager", "fp32 compiled"]
    if work.sparse:
        found += [f"{mode} sparse" for mode in found]
    return found + (["bf16 eager", "bf16 compiled"] if work.bf16 else [])


def side(name: str, mode: str, threads: int) -> Side:
    """A whole training step of a workload in one of `modes`."""
    work = WORKLOADS[name]
    pdl_threads.set_num_threads(threads)
    pdl.seed(0)
    net = net_of(name, work, sparse="sparse" in mode)
    x, labels = (pdl.Tensor(a) for a in work.arrays())
    made = pdl.optim.Adam(net.parameters(), **ADAM) if work.optimizer == "adam" else pdl.optim.SGD(
        net.parameters(), **SGD
    )  # fmt: skip
    loss_of = loss_by(net, work)
    loss_of = in_bf16(loss_of) if "bf16" in mode else loss_of
    step = compiled(loss_of, net, made) if "compiled" in mode else eager(loss_of, net, made)
    return Side(lambda: step(x, labels), sum(p.size for p in net.parameters()))


Loss = Callable[[pdl.Tensor, pdl.Tensor], pdl.Tensor]
Step = Callable[[pdl.Tensor, pdl.Tensor], Any]


def eager(loss_of: Loss, net: nn.Module, optimizer: Any) -> Step:
    """Op by op."""

    def step(x: pdl.Tensor, labels: pdl.Tensor) -> None:
        optimizer.zero_grad()
        loss_of(x, labels).backward()
        optimizer.step()

    return step


def compiled(loss_of: Loss, net: nn.Module, optimizer: Any) -> Step:
    """One program, as the trainer runs it; a step that cannot be compiled is an error here."""

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(loss_of, net, notify=notify)

    def step(x: pdl.Tensor, labels: pdl.Tensor) -> None:
        program(x, labels)
        optimizer.step()

    return step


def loss_by(net: nn.Module, work: Workload) -> Loss:
    """The loss of a net: cross-entropy, of scores enlarged to the image where pixels have labels, or CTC where labels
    are texts."""
    if work.pixels:
        return lambda x, labels: pdl.cross_entropy(pdl.resize(net(x), labels.shape[1:3], mode="bilinear"), labels)
    if not work.text:
        return lambda x, labels: pdl.cross_entropy(net(x), labels)

    def loss_of(x: pdl.Tensor, labels: pdl.Tensor) -> pdl.Tensor:
        logs = pdl.log_softmax(net(x))
        n, steps = logs.shape[:2]
        lengths = (pdl.full((n,), size, dtype=pdl.int64) for size in (steps, work.text))
        return pdl.ctc_loss(logs, labels, *lengths)

    return loss_of


def in_bf16(loss: Loss) -> Loss:
    """Mixed precision: bfloat16 activations, float32 master weights."""

    def loss_of(x: pdl.Tensor, labels: pdl.Tensor) -> pdl.Tensor:
        with pdl.autocast():
            return loss(x, labels)

    return loss_of


def step_flops(name: str) -> float:
    """Operations of the products in a training step (forward and gradients, two for each multiply-add), per sample."""
    from pdl.workflow.step_program import flops  # with the trainer's imports, which no measured process needs

    work = WORKLOADS[name]
    net = net_of(name, work)
    x, labels = (pdl.Tensor(a) for a in work.arrays())
    made = CompiledStep(loss_by(net, work), net).program_for(x, labels)
    assert made is not None
    return flops(made.executable.program) / work.batch
