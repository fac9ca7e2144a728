"""Classification and regression of whole graphs."""
