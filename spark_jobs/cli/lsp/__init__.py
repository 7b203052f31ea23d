"""The language server: what an editor shows of a pipeline while it is written.

`analysis` knows pipelines and no protocol, `server` speaks the protocol and knows no pipelines.
"""
