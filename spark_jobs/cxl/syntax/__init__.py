"""Texts to syntax trees and back: grammar, parser, canonical layout.

Here: the grammar, the parser, words for texts that do not parse, the canonical layout.
Not here: what a name means or of what type anything is; that is `checking`.
"""
