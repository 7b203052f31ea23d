"""Bytes to Arrow batches and back, a format per module."""
