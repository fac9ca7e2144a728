"""Writing token by token: `search` for the best words of a decoder, or `stream` them as they come.

The same code decodes for a net in training and for a bundle: a `Decoding` encodes sources and steps, eagerly or by
programs whose caches stay in place, and the search around it is NumPy.
"""

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl.runtime.decoding.api import *  # noqa: F403

__getattr__, __dir__ = names_of("pdl.runtime.decoding.api")
