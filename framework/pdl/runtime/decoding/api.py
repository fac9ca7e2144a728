"""The public names of `pdl.runtime.decoding`."""

from pdl.decoder_state import Carried, Kept, KeyValues
from pdl.runtime.decoding.options import Allowed, Options, Writing
from pdl.runtime.decoding.programs import Programs
from pdl.runtime.decoding.running import Decoding, Running
from pdl.runtime.decoding.searching import TextOf, Token, Written, search, stream
from pdl.runtime.decoding.writer import Writer

__all__ = [
    "Allowed", "Carried", "Decoding", "Kept", "KeyValues", "Options", "Programs", "Running", "TextOf", "Token",
    "Writer", "Writing", "Written", "search", "stream",
]  # fmt: skip
