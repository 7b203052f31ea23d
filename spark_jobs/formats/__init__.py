"""Bytes to Arrow batches and back, a package per format.

Here: what formats share: texts to types, types to texts, encodings, blocks of records.
Not here: which files there are and who reads them.
"""
