"""Tables of files: Parquet files that a log or a catalogue chooses, whatever format of tables that is."""
