"""The common part of EDIFACT and X12: segments and interchanges (`docs/semantics/edi.md`). Not a format by itself."""
