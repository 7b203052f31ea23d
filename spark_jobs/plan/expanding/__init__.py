"""Documents laid over and put into one another before anything is bound.

Here: compositions and their parameters, channels, variables.
Not here: types and columns; binding finds those.
"""
