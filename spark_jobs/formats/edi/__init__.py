"""What EDIFACT and X12 share: segments, and interchanges of them (spec/formats.md 7). No format of its own."""
