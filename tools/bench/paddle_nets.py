"""The race's workloads in PaddlePaddle, layer for layer those of pdl."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext

from workloads import ADAM, DROPOUT, FEED, HEADS, LAYERS, SESSION, SGD, WIDTH, WORKLOADS, Side, Workload

os.environ.setdefault("OMP_NUM_THREADS", "2")  # read when paddle is imported; `side` checks it

import paddle
from paddle import nn
from paddle.nn import functional as F

STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def conv(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2D:
    """A convolution without bias that keeps the size at stride 1."""
    return nn.Conv2D(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias_attr=False)


class LeNet(nn.Layer):
    """LeNet-5 with ReLU and max pooling."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2D(1, 6, 5, padding=2), nn.Conv2D(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Logits [N, classes] of images [N, 1, 28, 28]."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class CifarBlock(nn.Layer):
    """Two 3x3 convolutions and a parameter-free shortcut (He et al. 2015, option A)."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(c_in, c_out, 3, stride), nn.BatchNorm2D(c_out)
        self.conv2, self.bn2 = conv(c_out, c_out, 3), nn.BatchNorm2D(c_out)
        self.stride, self.more = stride, c_out - c_in

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """ReLU(x' + F(x))."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:
            half = self.more // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], [0, 0, half, half, 0, 0, 0, 0], pad_from_left_axis=True)
        return F.relu(x + y)


class CifarResNet(nn.Layer):
    """The CIFAR ResNet of depth 20."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv, self.bn = conv(3, 16, 3), nn.BatchNorm2D(16)
        sizes = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1),
                 (64, 64, 1)]  # fmt: skip
        self.blocks, self.fc = nn.Sequential(*[CifarBlock(*s) for s in sizes]), nn.Linear(64, classes)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Logits [N, classes] of images [N, 3, 32, 32]."""
        return self.fc(self.blocks(F.relu(self.bn(self.conv(x)))).mean((2, 3)))


class Residual(nn.Layer):
    """A basic block (expansion 1) or a bottleneck (4) of the ImageNet ResNets."""

    def __init__(self, c_in: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        out = width * expansion
        shapes = [(c_in, width, 3, stride), (width, width, 3, 1)]
        if expansion > 1:
            shapes = [(c_in, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        self.convs = nn.LayerList([conv(*s) for s in shapes])
        self.norms = nn.LayerList([nn.BatchNorm2D(s[1]) for s in shapes])
        change = stride != 1 or c_in != out
        self.shortcut = nn.Sequential(conv(c_in, out, 1, stride), nn.BatchNorm2D(out)) if change else nn.Identity()

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """ReLU(x' + F(x))."""
        y = self.norms[0](self.convs[0](x))
        for number in range(1, len(self.convs)):
            y = self.norms[number](self.convs[number](F.relu(y)))
        return F.relu(self.shortcut(x) + y)


class ResNet(nn.Layer):
    """ResNet-18 and 50; `small` has a 3x3 stem without pooling."""

    def __init__(self, depth: int, classes: int, small: bool = False) -> None:
        super().__init__()
        counts, expansion = {18: ((2, 2, 2, 2), 1), 50: ((3, 4, 6, 3), 4)}[depth]
        self.stem, self.norm = conv(3, 64, 3) if small else conv(3, 64, 7, 2), nn.BatchNorm2D(64)
        self.pool = nn.Identity() if small else nn.MaxPool2D(3, 2, 1)
        blocks, c = [], 64
        for number, count in enumerate(counts):
            for k in range(count):
                blocks.append(Residual(c, 64 * 2**number, 2 if number and not k else 1, expansion))
                c = 64 * 2**number * expansion
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(c, classes)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Logits [N, classes] of images [N, 3, H, W]."""
        return self.fc(self.blocks(self.pool(F.relu(self.norm(self.stem(x))))).mean((2, 3)))


class Inverted(nn.Layer):
    """MobileNetV2's block: expand, filter by depthwise 3x3, project."""

    def __init__(self, c_in: int, c_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = c_in * expansion
        expand = [conv(c_in, hidden, 1), nn.BatchNorm2D(hidden), nn.ReLU6()] if expansion != 1 else []
        depthwise = [conv(hidden, hidden, 3, stride, hidden), nn.BatchNorm2D(hidden), nn.ReLU6()]
        self.body = nn.Sequential(*expand, *depthwise, conv(hidden, c_out, 1), nn.BatchNorm2D(c_out))
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """x [N, C, H, W] -> [N, c_out, H / stride, W / stride]."""
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Layer):
    """Table 2 of arXiv 1801.04381."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Layer] = [conv(3, 32, 3, 2), nn.BatchNorm2D(32), nn.ReLU6()]
        c = 32
        for expansion, out, count, stride in STAGES:
            for k in range(count):
                layers.append(Inverted(c, out, 1 if k else stride, expansion))
                c = out
        layers += [conv(c, 1280, 1), nn.BatchNorm2D(1280), nn.ReLU6()]
        self.features, self.drop, self.fc = nn.Sequential(*layers), nn.Dropout(0.2), nn.Linear(1280, classes)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Logits [N, classes] of images [N, 3, H, W]."""
        return self.fc(self.drop(self.features(x).mean((2, 3))))


class Transformer(nn.Layer):
    """A classifier of token sequences."""

    def __init__(self, vocabulary: int, length: int, classes: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), self.create_parameter([length, WIDTH])
        self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, FEED, DROPOUT, "gelu", act_dropout=DROPOUT)
        self.encoder, self.head = nn.TransformerEncoder(layer, LAYERS), nn.Linear(WIDTH, classes)

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """Logits [N, classes] of tokens [N, length]."""
        return self.head(self.encoder(self.drop(self.norm(self.tokens(tokens) + self.places)))[:, 0])


class GRU4Rec(nn.Layer):
    """The next item of a session."""

    def __init__(self, items: int, sparse: bool) -> None:
        super().__init__()
        self.items = nn.Embedding(items, SESSION, sparse=sparse)
        self.gru, self.head = nn.GRU(SESSION, SESSION), nn.Linear(SESSION, items)

    def forward(self, items: paddle.Tensor) -> paddle.Tensor:
        """Logits [N, items] of items [N, length]."""
        return self.head(self.gru(self.items(items))[0][:, -1])


def net_of(name: str, work: Workload, sparse: bool) -> nn.Layer:
    """The net of a workload with fresh weights."""
    made: dict[str, Callable[[], nn.Layer]] = {
        "lenet": lambda: LeNet(work.classes),
        "resnet20": lambda: CifarResNet(work.classes),
        "resnet18": lambda: ResNet(18, work.classes, small=True),
        "resnet50": lambda: ResNet(50, work.classes),
        "mobilenetv2": lambda: MobileNetV2(work.classes),
        "transformer": lambda: Transformer(work.vocabulary, work.length, work.classes),
        "gru4rec": lambda: GRU4Rec(work.vocabulary, sparse),
    }
    return made[name]()


def modes(work: Workload) -> list[str]:
    """How PaddlePaddle can train it; recognisers of text are compared with PyTorch alone."""
    if work.text:
        return []
    found = ["fp32 eager", "fp32 to_static", *(["bf16 autocast"] if work.bf16 else [])]
    return found + (["fp32 eager sparse"] if work.sparse else [])


def optimizer_of(net: nn.Layer, work: Workload, sparse: bool) -> paddle.optimizer.Optimizer:
    """The same rule and numbers as the other sides; Nesterov's momentum with L2."""
    if work.optimizer == "adam":
        return paddle.optimizer.Adam(ADAM["lr"], parameters=net.parameters(), lazy_mode=sparse)
    return paddle.optimizer.Momentum(
        SGD["lr"],
        SGD["momentum"],
        net.parameters(),
        use_nesterov=SGD["nesterov"],
        weight_decay=paddle.regularizer.L2Decay(SGD["weight_decay"]),
    )


def side(name: str, mode: str, threads: int) -> Side:
    """A whole training step of a workload in one of `modes`."""
    if os.environ["OMP_NUM_THREADS"] != str(threads):
        raise ValueError(f"set OMP_NUM_THREADS={threads}: paddle reads it when it is imported")
    work, sparse = WORKLOADS[name], "sparse" in mode
    paddle.seed(0)
    net = net_of(name, work, sparse)
    optimizer = optimizer_of(net, work, sparse)
    images, numbers = work.arrays()
    x = paddle.to_tensor(images.transpose(0, 3, 1, 2).copy() if work.image else images)
    labels = paddle.to_tensor(numbers)
    run = paddle.jit.to_static(net) if "to_static" in mode else net
    bf16 = "bf16" in mode

    def step() -> None:
        with paddle.amp.auto_cast(dtype="bfloat16") if bf16 else nullcontext():
            logits = run(x)
        F.cross_entropy(logits.astype("float32"), labels).backward()
        optimizer.step()
        optimizer.clear_grad()

    # batch norm's running statistics are parameters that are not trained here
    return Side(step, sum(p.size for p in net.parameters() if not p.stop_gradient))
