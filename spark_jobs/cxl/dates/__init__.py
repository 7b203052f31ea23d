"""Dates as texts: the codes of date formats, and the names of months and weekdays.

Here: writing and parsing by a format, the same for sources, outputs and programs; zones of texts with an offset.
Not here: arithmetic with dates, which builtins do.
"""
