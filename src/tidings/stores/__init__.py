"""The stores: the keyspace (an index that may be lost), the tables (the truth) and the blobs (the cold tier).

`tables/ports.py` says what an adapter owes, `keyspace/keys.py` has every key, `keyspace/scripts/` every script.
"""
