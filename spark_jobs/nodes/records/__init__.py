"""Records in operators.

Here: batches, engine columns, places in record order, the ledger.
Not here: exchanges and buffers, which are in the package above.
"""
