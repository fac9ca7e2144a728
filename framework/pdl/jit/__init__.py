"""Programs from Python: rewritten control flow (`to_static`), compiled functions (`compile`), `cond`, `while_loop`."""

from pdl.jit.errors import ConversionError
from pdl.jit.functional import cond, while_loop
from pdl.jit.static import StaticFunction, compile, not_to_static, to_static

__all__ = ["ConversionError", "StaticFunction", "compile", "cond", "not_to_static", "to_static", "while_loop"]
