"""Data sets of the suite: texts with labels, tags or nothing beside them."""
