"""The JVM and the workers that a run starts by itself, early.

Here: finding Java, launching its JVM, the class archive, preforked workers.
Not here: sessions, clusters, Connect.
"""
