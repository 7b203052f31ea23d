"""The language server: problems, completions and help for an editor while a pipeline is written.

Here: the meaning of each place in a text, and the protocol.
Not here: finding problems of a pipeline, which planning does.
"""
