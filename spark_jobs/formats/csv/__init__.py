"""CSV: records on lines, fields between delimiters, line ends inside quotes."""
