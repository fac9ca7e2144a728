"""The steps of graphs: folders, nodes, pairs, enclosing subgraphs, molecules and triples in.

They need NumPy and `pdl.runtime` alone; molecules RDKit when one is read.
"""
