"""What can be wrong with a pipeline as a whole, and what is legal but not meant.

Here: questions that no node can answer for itself.
Not here: what is wrong with one node; its type says that.
"""
