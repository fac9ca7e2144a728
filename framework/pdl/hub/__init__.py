"""Pretrained weights by name: found on this machine or fetched, trusted only when their sha256 is right.

    pdl.hub.resolve("cv/resnet18")      the verified file; fetched once, then found in the cache without a socket
    pdl.hub.index()                     everything the installed packages offer (their `hub.yaml`)
    pdl.hub.entry("resnet18")           one of it; the package may be left out where only one has the name
    pdl.hub.load_pretrained(net, name)  the weights, into a model, and a report of what had to be adapted

PDL_HUB names mirrors to look into first: folders and addresses, separated like the folders of PATH (`pdl hub mirror`
makes one). PDL_OFFLINE=1 opens no connection. PDL_CACHE is where fetched files go.
"""

from pdl.hub.cache import cache_dir, place, sha256
from pdl.hub.copies import mirror
from pdl.hub.files import folders, obtainable, resolve
from pdl.hub.index import Entry, Source, broken, entry, index
from pdl.hub.pretrained import Report, load_pretrained

__all__ = [
    "Entry", "Report", "Source", "broken", "cache_dir", "entry", "folders", "index", "load_pretrained",
    "mirror", "obtainable", "place", "resolve", "sha256",
]  # fmt: skip
