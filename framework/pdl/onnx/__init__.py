"""ONNX models in pdl: `load_model` reads a file, traces it into a program where its shapes allow, or interprets it."""
