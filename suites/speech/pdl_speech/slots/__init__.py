"""What is said of the slots of an order."""

from pdl_speech.slots.task import SlotFilling

__all__ = ["SlotFilling"]
