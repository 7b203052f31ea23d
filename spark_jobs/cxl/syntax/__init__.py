"""Texts to syntax trees and back: grammar, parser, canonical layout.

Here: the grammar, the parser, messages for texts that do not parse, the canonical layout.
Not here: the meaning of names, and types (`checking`).
"""
