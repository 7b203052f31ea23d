"""Guides, and what writes the reference from the code."""
