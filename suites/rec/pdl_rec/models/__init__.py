"""The models: one file per family."""

from pdl_rec.models.base import SequenceModel
from pdl_rec.models.narm import NARM
from pdl_rec.models.sasrec import SASRec
from pdl_rec.models.sr_gnn import SRGNN

__all__ = ["NARM", "SRGNN", "SASRec", "SequenceModel"]
