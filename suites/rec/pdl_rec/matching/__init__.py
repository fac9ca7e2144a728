"""Which items fit a user: retrieval out of a whole catalogue."""
