"""ORC: columns in stripes, with names and types of their own."""
