"""aggregate: records grouped by keys."""
