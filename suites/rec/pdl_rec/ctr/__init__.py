"""Whether a shown thing is clicked: features to probabilities."""
