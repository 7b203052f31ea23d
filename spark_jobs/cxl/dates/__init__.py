"""Dates as texts: the codes of date formats, and the names of months and weekdays.

Here: writing and parsing by a format, the same for sources, outputs and programs.
Not here: calendars and time zones; those are builtins.
"""
