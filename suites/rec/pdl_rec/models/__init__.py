"""The models: one file per family."""

from pdl_rec.models.base import SequenceModel
from pdl_rec.models.bpr_mf import BPRMF
from pdl_rec.models.dcn_v2 import DCNv2
from pdl_rec.models.deepfm import DeepFM
from pdl_rec.models.din import DIN
from pdl_rec.models.dssm import DSSM
from pdl_rec.models.esmm import ESMM
from pdl_rec.models.fm import FM
from pdl_rec.models.gru4rec import GRU4Rec
from pdl_rec.models.lr import LR
from pdl_rec.models.matching import MatchingModel, TwoTower
from pdl_rec.models.mmoe import MMoE
from pdl_rec.models.narm import NARM
from pdl_rec.models.ncf import NCF
from pdl_rec.models.ple import PLE
from pdl_rec.models.sasrec import SASRec
from pdl_rec.models.simnet import SimNet
from pdl_rec.models.sr_gnn import SRGNN
from pdl_rec.models.ssr import SSR
from pdl_rec.models.table_net import TableNet
from pdl_rec.models.tagspace import TagSpace
from pdl_rec.models.wide_deep import WideDeep
from pdl_rec.models.xdeepfm import XDeepFM
from pdl_rec.models.youtube_dnn import YouTubeDNN
