"""XML: an element for each record, somewhere in a document (spec/formats.md 5)."""
