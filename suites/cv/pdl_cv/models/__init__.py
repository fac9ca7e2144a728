"""Model families, one file each: blocks, net, VARIANTS (name -> what a recipe writes), and the remap of
foreign checkpoints.
"""

from pdl_cv.models.alexnet import AlexNet
from pdl_cv.models.attention_clusters import AttentionClusters
from pdl_cv.models.bisenet_v2 import BiSeNetV2
from pdl_cv.models.blazeface import BlazeFace
from pdl_cv.models.convnext import ConvNeXt
from pdl_cv.models.dcgan import DCGAN
from pdl_cv.models.ddpm import DDPM
from pdl_cv.models.deeplab_v3_plus import DeepLabV3Plus
from pdl_cv.models.densenet import DenseNet
from pdl_cv.models.detector import Backbone
from pdl_cv.models.efficientnet import EfficientNet
from pdl_cv.models.faster_rcnn import FasterRCNN
from pdl_cv.models.googlenet import GoogLeNet
from pdl_cv.models.icnet import ICNet
from pdl_cv.models.inception_v4 import InceptionV4
from pdl_cv.models.lenet import LeNet
from pdl_cv.models.lite_hrnet import LiteHRNet
from pdl_cv.models.mask_rcnn import MaskRCNN
from pdl_cv.models.mobilenet_v1 import MobileNetV1
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.mobilenet_v3 import MobileNetV3
from pdl_cv.models.picodet import PicoDet
from pdl_cv.models.pix2pix import Pix2Pix
from pdl_cv.models.pp_lcnet import PPLCNet
from pdl_cv.models.pp_liteseg import STDC, PPLiteSeg
from pdl_cv.models.pp_tinypose import PPTinyPose
from pdl_cv.models.pp_yoloe import PPYOLOE
from pdl_cv.models.pspnet import PSPNet
from pdl_cv.models.pyramidbox import PyramidBox
from pdl_cv.models.r2plus1d import R2Plus1D
from pdl_cv.models.repvgg import RepVGG
from pdl_cv.models.resnet import CifarResNet, ResNet
from pdl_cv.models.rt_detr import RTDETR
from pdl_cv.models.segformer import SegFormer
from pdl_cv.models.shufflenet_v2 import ShuffleNetV2
from pdl_cv.models.simple_baseline import SimpleBaseline
from pdl_cv.models.squeezenet import SqueezeNet
from pdl_cv.models.ssd import SSD
from pdl_cv.models.st_gcn import STGCN, STGCNStreams
from pdl_cv.models.swin import SwinTransformer
from pdl_cv.models.tsm import TSM
from pdl_cv.models.tsn import TSN
from pdl_cv.models.unet import UNet
from pdl_cv.models.vae import VAE
from pdl_cv.models.vgg import VGG
from pdl_cv.models.vit import DistilledVisionTransformer, VisionTransformer
from pdl_cv.models.yolov3 import YOLOv3
from pdl_cv.models.yolox import YOLOX

__all__ = [
    "AlexNet",
    "AttentionClusters",
    "BiSeNetV2",
    "BlazeFace",
    "Backbone",
    "CifarResNet",
    "ConvNeXt",
    "DCGAN",
    "DDPM",
    "DeepLabV3Plus",
    "DenseNet",
    "DistilledVisionTransformer",
    "EfficientNet",
    "FasterRCNN",
    "GoogLeNet",
    "ICNet",
    "InceptionV4",
    "LeNet",
    "LiteHRNet",
    "MaskRCNN",
    "MobileNetV1",
    "MobileNetV2",
    "MobileNetV3",
    "PPLCNet",
    "PPLiteSeg",
    "PPTinyPose",
    "PPYOLOE",
    "PSPNet",
    "PicoDet",
    "Pix2Pix",
    "PyramidBox",
    "R2Plus1D",
    "RTDETR",
    "RepVGG",
    "ResNet",
    "SSD",
    "STDC",
    "STGCN",
    "STGCNStreams",
    "SegFormer",
    "ShuffleNetV2",
    "SimpleBaseline",
    "SqueezeNet",
    "SwinTransformer",
    "TSM",
    "TSN",
    "UNet",
    "VAE",
    "VGG",
    "VisionTransformer",
    "YOLOX",
    "YOLOv3",
]
