"""Post-training quantisation: a trained net in bytes, without training it again.

`calibrate` runs the net on samples and finds the range of every activation; `quantised` turns a program and ranges into
one on bytes; `compress` does both for a finished run and compares the two nets.
"""

from pdl.export.quantise.calibrate import Calibration, calibrate
from pdl.export.quantise.observe import METHODS

__all__ = ["METHODS", "Calibration", "calibrate"]
