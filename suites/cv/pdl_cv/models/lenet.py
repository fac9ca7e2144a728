"""LeNet-5: LeCun, Bottou, Bengio, Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 86,
1998.

With the two changes that everybody makes today: rectifiers instead of scaled tanh, maximum instead of trained mean
pooling; and the second convolution reads all maps of the first.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]


class LeNet(nn.Module):
    """Two convolutions with pooling, three linear layers: x [N, image_size, image_size, in_channels] -> logits [N,
    num_classes].

    Images of 16 pixels and more get 5 x 5 kernels (the first padded by 2: 28 x 28 images give the 5 x 5 maps of the
    paper), smaller ones 3 x 3 kernels, both padded. `channels` and `hidden` are the widths of the convolutions and of
    the hidden linear layers.
    """

    head: ClassVar[str] = "fc3"
    stem: ClassVar[str] = "conv1"

    def __init__(
        self,
        *,
        in_channels: Width = 1,
        num_classes: Width = 10,
        image_size: Annotated[int, Range(4)] = 28,
        channels: tuple[Width, Width] = (6, 16),
        hidden: tuple[Width, Width] = (120, 84),
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        large = image_size >= 16
        kernel, padding = (5, (2, 0)) if large else (3, (1, 1))
        self.image_size = image_size
        self.conv1 = nn.Conv2d(in_channels, channels[0], kernel, padding=padding[0])
        self.conv2 = nn.Conv2d(channels[0], channels[1], kernel, padding=padding[1])
        side = (image_size // 2 - (4 if large else 0)) // 2
        self.fc1 = nn.Linear(side * side * channels[1], hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.dropout = nn.Dropout(dropout)
        self.fc3 = nn.Linear(hidden[1], num_classes)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        if x.shape[1:3] != (self.image_size, self.image_size):
            raise ShapeError(
                f"LeNet: x {x.shape} holds images of {x.shape[1:3]}; this net is built for image_size={self.image_size}"
            )
        x = pdl.max_pool(pdl.relu(self.conv1(x)), 2)
        x = pdl.max_pool(pdl.relu(self.conv2(x)), 2)
        x = pdl.relu(self.fc1(pdl.flatten(x, start=1)))
        return self.fc3(self.dropout(pdl.relu(self.fc2(x))))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    "lenet": {"_target_": "pdl_cv.LeNet"},
    "lenet_8": {"_target_": "pdl_cv.LeNet", "image_size": 8, "channels": (16, 32)},
}
