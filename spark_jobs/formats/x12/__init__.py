"""X12: a record for each segment of the transaction sets of an interchange (spec/formats.md 7.3 and 7.4)."""
