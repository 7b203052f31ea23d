"""Tables of files as outputs: files in the folder of a table, and one commit that names them.

Here: what formats of tables have in common: whether records fit, files, the commit, what a dead run leaves of that.
Not here: what each format does by itself; that is in a package of its own beside this one.
"""
