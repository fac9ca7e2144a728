"""Modules: layers, containers and losses, channels last. Names are PyTorch's."""

from typing import TYPE_CHECKING

from pdl.habits import missing_from
from pdl.nn import init
from pdl.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from pdl.nn.attention import MultiHeadAttention, TransformerEncoder, TransformerEncoderLayer
from pdl.nn.container import ModuleDict, ModuleList, Sequential
from pdl.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from pdl.nn.decoder import Carried, Decoder, KeyValues
from pdl.nn.dropout import ChannelDropout, Dropout, DropPath
from pdl.nn.embedding import Embedding, EmbeddingBag
from pdl.nn.ensemble import Ensemble
from pdl.nn.foreign import from_torch, to_torch
from pdl.nn.linear import Bilinear, Flatten, Identity, Linear, Unflatten
from pdl.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    FocalLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiMarginLoss,
    NLLLoss,
    SmoothL1Loss,
    TripletMarginLoss,
)
from pdl.nn.metric import (
    ArcFaceLoss,
    CosFaceLoss,
    GE2ELoss,
    NPairLoss,
    QuadrupletLoss,
    SoftmaxLoss,
    SupConLoss,
    TripletLoss,
)
from pdl.nn.module import Buffer, Module, Parameter, Table
from pdl.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from pdl.nn.pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool,
    GlobalMaxPool,
    LPPool1d,
    LPPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool,
)
from pdl.nn.resize import PixelShuffle, PixelUnshuffle, Upsample
from pdl.nn.rnn import GRU, LSTM, RNN
from pdl.nn.spectral import SpectralNorm
from pdl.nn.stages import stages
from pdl.nn.summary import Summary, summary

__all__ = [
    "Buffer", "Module", "Parameter", "Table",
    "ModuleList", "Sequential", "ModuleDict",
    "Identity", "Linear", "Bilinear", "Flatten", "Unflatten",
    "Conv2d", "Conv1d", "Conv3d", "ConvTranspose2d", "ConvTranspose1d", "ConvTranspose3d",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm",
    "LocalResponseNorm", "SpectralNorm",
    "ReLU", "ReLU6", "Hardtanh", "Hardsigmoid", "Hardswish", "LeakyReLU", "PReLU", "ELU", "CELU", "SELU", "GELU",
    "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh", "Softplus", "Softsign", "GLU", "Softmax", "LogSoftmax",
    "MaxPool2d", "MaxPool1d", "MaxPool3d", "AvgPool2d", "AvgPool1d", "AvgPool3d", "LPPool2d", "LPPool1d",
    "AdaptiveAvgPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool3d", "AdaptiveMaxPool2d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool3d", "GlobalAvgPool", "GlobalMaxPool", "MaxUnpool",
    "Dropout", "ChannelDropout", "DropPath",
    "Embedding", "EmbeddingBag", "Ensemble",
    "RNN", "GRU", "LSTM",
    "MultiHeadAttention", "TransformerEncoderLayer", "TransformerEncoder",
    "Decoder", "KeyValues", "Carried",
    "Upsample", "PixelShuffle", "PixelUnshuffle",
    "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
    "KLDivLoss", "FocalLoss", "CosineEmbeddingLoss", "MarginRankingLoss", "HingeEmbeddingLoss", "TripletMarginLoss",
    "MultiMarginLoss", "CTCLoss", "SoftmaxLoss", "ArcFaceLoss", "CosFaceLoss", "GE2ELoss", "TripletLoss",
    "QuadrupletLoss", "NPairLoss", "SupConLoss",
    "Summary", "stages", "summary",
    "from_torch", "to_torch",
    "init",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = missing_from(__name__)
