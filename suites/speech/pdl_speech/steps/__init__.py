"""Steps of pipelines: what `pdl.steps` in pyproject.toml names. They import NumPy and the runtime only."""
