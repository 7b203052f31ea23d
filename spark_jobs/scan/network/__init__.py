"""Pages of network sources, fetched into files.

Here: addresses, requests, limits, paging.
Not here: the content of pages, which their format reads.
"""
