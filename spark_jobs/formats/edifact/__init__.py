"""EDIFACT: a record for each segment of the messages of an interchange (spec/formats.md 7.1 and 7.2)."""
