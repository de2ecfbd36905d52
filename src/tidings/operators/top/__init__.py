"""`tidings top`: live rates and latencies of nodes, from their /metrics, on a terminal of 80 columns.

A node does nothing for `top` except answer /metrics.
"""
