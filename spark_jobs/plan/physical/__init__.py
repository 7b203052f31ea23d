"""How a plan will run: jobs, fragments, exchanges, the columns that are needed, sizes.

Here: what follows from the plan without looking at data.
Not here: running; that is `execute`.
"""
