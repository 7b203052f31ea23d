"""Fixed width: fields at fixed places of each record (spec/formats.md 6)."""
