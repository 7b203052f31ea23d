"""XML: each element at the end of `record_path` is a record (`docs/semantics/xml.md`)."""
