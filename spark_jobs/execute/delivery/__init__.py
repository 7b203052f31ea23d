"""From parts that tasks have written to files that others see, all at once or not at all.

Here: target paths and existing files, joining parts, publishing, recovery.
Not here: bytes of records; writers of formats make those in tasks.
"""
