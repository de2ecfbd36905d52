"""Bounds of the DynamoDB adapter, each with its unit and its reason."""

from __future__ import annotations

DEADLINE_S = 3.0  # one operation with all its retries; below STORE_DEADLINE_S, so that the batch can decide
THROTTLED_S = 0.3  # a throttled conversation is tried again for this long while others wait for its batch
ATTEMPT_S = 1.0  # one request: ten times a slow answer, and a retry still fits the deadline
PAUSE_S = 0.025  # the longest first pause before a retry (full jitter), doubled each time
PAUSE_S_MAX = 0.5  # the longest of these pauses
LINKS = 64  # connections of a node unless its URL says otherwise: at 10 ms a request, 6,000 a second
TRANSACTION_ITEMS_MAX = 100  # DynamoDB's limit
BATCH_GET_MAX = 100  # DynamoDB's limit
BATCH_WRITE_MAX = 25  # DynamoDB's limit
RESERVED_TTL_S = 3_600  # the mark of a large conversation being created; its creator takes seconds
DELETING_S = 60  # a deletion not continued for this long may be finished: by the archiver, or a new creation
WALK_ROWS = 1_000  # pending rows looked at per expiry: the whole table each time would cost too much
CREATE_S = 300.0  # until a new table can be used; seconds as a rule
