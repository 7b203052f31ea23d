"""What the engine knows of records beside their fields.

Here: the columns that have it, their places in record order, the ledger of what became of them.
Not here: what moves and holds them, which stands beside the nodes.
"""
