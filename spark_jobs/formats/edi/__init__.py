"""What EDIFACT and X12 share: segments, and interchanges of them (`docs/semantics/edi.md`). Not a format by itself."""
