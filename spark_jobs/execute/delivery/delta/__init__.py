"""Delta tables as outputs: tasks write files into the folder of a table, and one commit names them.

Here: matching of records and table, its files, the commit, recovery.
Not here: how files are encoded and the log is read; `formats/delta` does that.
"""
