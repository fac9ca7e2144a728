"""The models: one file per family."""

from pdl_graph.models.appnp import APPNP, GPRGNN
from pdl_graph.models.base import GraphModel
from pdl_graph.models.complex import ComplEx
from pdl_graph.models.dgi import DGI
from pdl_graph.models.distmult import DistMult
from pdl_graph.models.gat import GAT, GATConv, GATv2, GATv2Conv
from pdl_graph.models.gcn import GCN, GCNConv
from pdl_graph.models.gcnii import GCNII, GCNIIConv
from pdl_graph.models.gin import GIN, GINE, GINConv, GINEConv
from pdl_graph.models.graph_net import GraphNet
from pdl_graph.models.knowledge import KnowledgeModel
from pdl_graph.models.layered import LayeredModel
from pdl_graph.models.line import LINE
from pdl_graph.models.link import BilinearDecoder, Decoder, DotDecoder, LinkModel, LinkPredictor, MLPDecoder
from pdl_graph.models.mlp import MLP, FeatureLinear
from pdl_graph.models.rgcn import RGCN, RGCNConv
from pdl_graph.models.rotate import RotatE
from pdl_graph.models.sage import GraphSAGE, SAGEConv
from pdl_graph.models.seal import SEAL, SubgraphModel
from pdl_graph.models.sgc import SGC, SSGC
from pdl_graph.models.skip_gram import DeepWalk, MetaPath2Vec, Node2Vec, SkipGram
from pdl_graph.models.transe import TransE
from pdl_graph.models.vgae import GAE, VGAE
