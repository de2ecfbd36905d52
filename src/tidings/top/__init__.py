"""`tidings top`: what nodes do right now, from their own /metrics, on a terminal of 80 columns.

Nothing here is needed by a node, and a node does nothing for it but answer a page. cli_top.py is the command.
"""
