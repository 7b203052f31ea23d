"""The bytes of files to Arrow batches and back, a package per format.

Here: planning, splitting and reading the files of a source; conversions of texts, encodings and all else that formats
share.
Not here: finding files (`scan/`), and the tasks that read them (`execute/`).
"""
