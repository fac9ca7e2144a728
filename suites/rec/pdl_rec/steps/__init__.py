"""The steps of recommendation: sessions and words by name in. They need NumPy and `pdl.runtime` alone."""
