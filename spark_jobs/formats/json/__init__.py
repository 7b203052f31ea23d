"""JSON: an object a line, the elements of an array, or an array inside a document."""
