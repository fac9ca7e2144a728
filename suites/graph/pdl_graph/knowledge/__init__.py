"""Completion of knowledge graphs."""
