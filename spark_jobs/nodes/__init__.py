"""The node types of a pipeline, one package each.

Here: the configuration of each node type, the step that travels, the operator that runs; and infrastructure of nodes.
Not here: the graph and Spark; a node knows its inputs' rows and the operator downstream of it.
"""
