"""The JVM and the workers that a run starts by itself, soon.

Here: which Java, how its JVM is launched, what is made ready beside it.
Not here: sessions, clusters, Connect.
"""
