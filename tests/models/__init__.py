"""Plain models of what the engine does, record by record, to compare it with."""
