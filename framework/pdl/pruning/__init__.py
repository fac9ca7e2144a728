"""Channels that go: which belong together, which matter least, and a net without them."""
