"""From parts that tasks have written to files that others see, all at once or not at all.

Here: paths, what stands there already, putting parts together, publishing, recovery.
Not here: bytes of records; writers of formats make those in tasks.
"""
