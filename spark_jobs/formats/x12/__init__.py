"""X12: a record for each segment of the transaction sets of an interchange (`docs/semantics/edi.md`)."""
