"""Delta tables as outputs: tasks write files into the folder of a table, and one commit names them.

Here: whether records fit the table, its files, the commit, what a dead run leaves of that.
Not here: how files are encoded and the log is read; `formats/delta` does that.
"""
