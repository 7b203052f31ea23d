"""Tables of Parquet files that a log or a catalogue lists, independent of the table format."""
