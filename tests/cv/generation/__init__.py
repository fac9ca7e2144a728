"""Pictures that were never taken."""
