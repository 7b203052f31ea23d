"""`clinker guess`: finds the source that would read a file, and lists what does not fit.

Here: samples of files, their encoding, signs, header, types and spellings of values; the YAML that says so.
Not here: reading files. `spark_jobs/formats` reads the file again with the guessed source, and has the last word.
"""
