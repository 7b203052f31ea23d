"""EDIFACT: a record for each segment of the messages of an interchange (`docs/semantics/edi.md`)."""
