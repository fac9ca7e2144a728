"""Instance masks: the pixels of every object."""
