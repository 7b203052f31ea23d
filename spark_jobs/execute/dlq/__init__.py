"""Dead letters, from the task in which a record fails to the file that shows it.

Here: how they wait in tasks, are ordered, get their texts, and are written.
Not here: why records fail; that is said where it happens.
"""
