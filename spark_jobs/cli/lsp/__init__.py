"""The language server: what an editor shows of a pipeline while it is written.

Here: what is at a place in a text, and the protocol.
Not here: what is wrong with a pipeline; planning finds that.
"""
