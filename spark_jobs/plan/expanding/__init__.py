"""Expands documents before anything is bound: overrides of channels, and compositions in place.

Here: compositions and their parameters, channels, variables.
Not here: types and columns; binding finds those.
"""
