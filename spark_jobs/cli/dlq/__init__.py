"""The command `clinker dlq`: dead letters shown, replayed and discarded.

Here: what people ask for and read.
Not here: how records are replayed; `execute/dlq` does that.
"""
