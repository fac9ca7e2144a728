"""Data sets of the suite, and the readers that make graphs of files."""

from pdl_graph.data.base import GraphData, NodeData, graph_of, nodes_of, unwrap
from pdl_graph.data.blogcatalog import BlogCatalog
from pdl_graph.data.edge_file import CaAstroPh, EdgeFile, LinkGraph
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.data.folder import GraphFolder, read_graph
from pdl_graph.data.graphs import GraphSet
from pdl_graph.data.molecules import Molecules
from pdl_graph.data.planetoid import Planetoid
from pdl_graph.data.power_law import PowerLaw
from pdl_graph.data.triples import Triples
from pdl_graph.data.tu import TUGraphs
