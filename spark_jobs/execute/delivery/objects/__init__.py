"""Objects of a store as a destination: parts below a prefix of the run, invisible uploads, then the verdict.

Here: what lies in a store while a run lives, who may touch it, what makes it visible, what recovers it.
Not here: the store's protocol (`stores/writing.py`).
"""
