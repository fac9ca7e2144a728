"""One file for each family of ONNX ops; every op is one function, found by `pdl.onnx.registry`."""
