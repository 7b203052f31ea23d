"""The bytes of files to Arrow batches and back, a package per format.

Here: how the files of a source are planned, cut and read, and what formats share: texts to types and back, encodings.
Not here: which files there are, and who reads them.
"""
