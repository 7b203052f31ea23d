"""Checks of a pipeline as a whole: errors, and legal configuration that is probably a mistake.

Here: checks that concern several nodes.
Not here: errors of a single node, which its type finds.
"""
