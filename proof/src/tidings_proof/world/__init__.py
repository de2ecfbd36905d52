"""The world of a run: nodes, stores and proxies as processes."""
