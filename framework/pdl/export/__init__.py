"""Trained models in forms that other machines and other tools run."""
