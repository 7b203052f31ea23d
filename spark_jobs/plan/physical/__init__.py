"""The physical plan: jobs, fragments, exchanges, required columns, sizes.

Here: everything that follows from the plan without reading data.
Not here: running it (`execute`).
"""
