"""Node classification."""
