"""The node types of a pipeline, one package each.

Here: what users write of a node, the step that travels, the operator that runs; and what nodes share.
Not here: the graph and Spark; a node knows its inputs' rows and the operator downstream of it.
"""
