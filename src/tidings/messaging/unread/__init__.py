"""Exact unread counts: cursors, ranges, the index in the keyspace and its rebuild."""
