"""Tables of files as outputs: files in the folder of a table, and one commit that names them.

Here: the parts common to all table formats: matching of columns, files, the commit, and recovery.
Not here: the parts of each format, which are in packages of their own beside this one.
"""
