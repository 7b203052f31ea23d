"""Fixed width: fields at fixed positions of each record (`docs/semantics/fixed_width.md`)."""
