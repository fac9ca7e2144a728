"""The steps of circuits: Pauli words and bit strings in, bit strings out. They need NumPy and `pdl.runtime` alone."""
