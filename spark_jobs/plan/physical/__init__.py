"""The physical plan: jobs, fragments, exchanges, required columns, sizes.

Here: what follows from the plan without looking at data.
Not here: running; that is `execute`.
"""
