"""Embeddings of nodes by random walks."""
