"""Pretrained weights by name: looked for on disk, trusted only when their sha256 is right.

    pdl.hub.resolve("cv/resnet18")      the file, from a folder in PDL_HUB, the cache, or the suite's own package
    pdl.hub.index()                     everything the installed suites know of
    pdl.hub.load_pretrained(net, name)  the weights, into a model

A model family lists its files in a WEIGHTS table: {"resnet18": Weights(file=..., sha256=..., ...)}, under the names
of its VARIANTS.
"""

from __future__ import annotations

from pdl.hub.files import cache_dir, folders, resolve, sha256
from pdl.hub.pretrained import load_pretrained
from pdl.hub.tables import Entry, Weights, index

__all__ = ["Entry", "Weights", "cache_dir", "folders", "index", "load_pretrained", "resolve", "sha256"]
