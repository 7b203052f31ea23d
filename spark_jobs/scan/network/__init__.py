"""Pages of network sources, fetched into files.

Here: addresses, requests, limits, paging.
Not here: what stands in a page; its format says that.
"""
