"""Records on their way.

Here: batches, the columns with what the engine knows beside fields, places in record order, the ledger.
Not here: what moves and holds records, which stands beside the nodes.
"""
