"""What this machine does in a second, and what has been timed on it: by this, plans of inference choose among forms of
a product (`pdl.program.passes.costs`).

Training reads none of it: its bits depend on recipe, seed, instruction set and threads alone.
"""

from pdl.machine.figures import BUILT_IN, Machine
from pdl.machine.stored import calibrated, current, identity, renewed

__all__ = ["BUILT_IN", "Machine", "calibrated", "current", "identity", "renewed"]
