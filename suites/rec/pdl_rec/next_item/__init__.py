"""Which item comes next in a session."""

from pdl_rec.next_item.losses import BPRMax, CrossEntropy, TOP1Max
from pdl_rec.next_item.task import NextItem
