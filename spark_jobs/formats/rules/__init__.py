"""The rules of format schemas for the values of columns."""
