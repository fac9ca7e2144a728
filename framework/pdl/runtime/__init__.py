"""The deployment runtime: a bundle in, predictions out; NumPy and the kernels, no training code.

session = pdl.runtime.load("model.pdl")
session(image)                      # with the pipeline of the bundle
session.run({"image": array})       # without
"""

from pdl.runtime.session import Port, Session, load

__all__ = ["Port", "Session", "load"]
