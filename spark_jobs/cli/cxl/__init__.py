"""The `cxl` command: check, evaluate and format CXL without a pipeline, and try it out.

Here: what its subcommands do.
Not here: anything about pipelines.
"""
