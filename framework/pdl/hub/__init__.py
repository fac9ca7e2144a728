"""Pretrained weights by name: looked for on disk, trusted only when their sha256 is right.

    pdl.hub.resolve("cv/resnet18")      the verified file, from the cache, the package that lists it, or PDL_HUB
    pdl.hub.index()                     everything the installed packages offer (their `hub.yaml`)
    pdl.hub.entry("resnet18")           one of it; the package may be left out where only one has the name
    pdl.hub.load_pretrained(net, name)  the weights, into a model

PDL_HUB names folders of one's own that hold such files, separated like those of PATH.
"""

from __future__ import annotations

from pdl.hub.files import cache_dir, folders, resolve, sha256
from pdl.hub.index import Entry, Source, broken, entry, index
from pdl.hub.pretrained import load_pretrained

__all__ = [
    "Entry", "Source", "broken", "cache_dir", "entry", "folders", "index", "load_pretrained", "resolve", "sha256",
]  # fmt: skip
