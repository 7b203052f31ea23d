"""What format schemas ask of the values of columns."""
