"""What remains: the keyspace (an index that may be lost), the tables (the truth) and the blobs (the cold tier).

Read `ports.py` for what an adapter owes, `keys.py` for every key, `scripts.py` for every script.
"""
