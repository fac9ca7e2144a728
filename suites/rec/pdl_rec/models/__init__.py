"""The models: one file per family."""

from pdl_rec.models.base import SequenceModel
from pdl_rec.models.bpr_mf import BPRMF
from pdl_rec.models.dssm import DSSM
from pdl_rec.models.gru4rec import GRU4Rec
from pdl_rec.models.matching import MatchingModel, TwoTower
from pdl_rec.models.narm import NARM
from pdl_rec.models.ncf import NCF
from pdl_rec.models.sasrec import SASRec
from pdl_rec.models.simnet import SimNet
from pdl_rec.models.sr_gnn import SRGNN
from pdl_rec.models.ssr import SSR
from pdl_rec.models.tagspace import TagSpace
from pdl_rec.models.youtube_dnn import YouTubeDNN

__all__ = [
    "BPRMF",
    "DSSM",
    "GRU4Rec",
    "MatchingModel",
    "NARM",
    "NCF",
    "SASRec",
    "SRGNN",
    "SSR",
    "SequenceModel",
    "SimNet",
    "TagSpace",
    "TwoTower",
    "YouTubeDNN",
]
