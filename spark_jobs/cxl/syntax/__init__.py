"""Texts and syntax trees: what a program says, and how it is written.

Here: the grammar, the parser, words for texts that do not parse, the canonical layout.
Not here: what a name means or of what type anything is; that is `checking`.
"""
