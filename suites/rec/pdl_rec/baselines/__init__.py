"""Simple methods that a model has to beat; every report shows them beside it."""

from pdl_rec.baselines.base import Baseline
from pdl_rec.baselines.compare import BASELINES, baselines, measure
from pdl_rec.baselines.item_knn import ItemKNN
from pdl_rec.baselines.popularity import Popularity
from pdl_rec.baselines.rules import AssociationRules, SequentialRules
from pdl_rec.baselines.vs_knn import VSKNN
