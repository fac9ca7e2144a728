"""The steps of texts. They need NumPy and `pdl.runtime` alone."""
