"""The language server: problems, completions and help for an editor while a pipeline is written.

Here: what is at a place in a text, and the protocol.
Not here: what is wrong with a pipeline; planning finds that.
"""
