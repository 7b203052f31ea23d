"""Dead letters, from the task in which a record fails to the file that shows it.

Here: buffering in tasks, sorting, the texts of entries, and writing.
Not here: the reasons of failures, which come from the code that fails.
"""
