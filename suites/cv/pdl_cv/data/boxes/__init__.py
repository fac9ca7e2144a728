"""Readers and writers of objects in images: a module for each format, and what they share."""
