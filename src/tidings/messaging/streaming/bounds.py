"""Every limit of streamed messages, with its unit last and its reason beside it."""

from __future__ import annotations

STREAM_BYTES_MAX = 64 * 1024  # of a text that is written piece by piece: long answers of an agent fit
STREAM_SAVE_S = 2.0  # design: a piece is safe this much later at the latest
STREAM_SAVE_BYTES = 4 * 1024  # design: or when so much has come
STREAM_COMMIT_S = 0.08  # of these 2 s, for the commit itself; 20 saves in the 40 s of 4,000 tokens
STREAM_LOOK_S = 0.5  # how often a node looks which texts it must save, or sooner when one is due
STREAM_REST_S = 0.02  # at least, between two looks: a store that is away must not keep a node busy
STREAM_IDLE_END_S = 60.0  # protocol: without an append or end for this long a message is interrupted
STREAM_DUE_S = 5.0  # how often a node looks for messages that nobody goes on with
STREAMS_DUE_MAX = 50  # of these, ended in one look
STREAMS_MAX = 10_000  # messages that are written through one node at the same time: 640 MB at the very most
STREAMS_PER_USER_MAX = 1_000  # of these by one author, who leaves room for others
STREAM_PUSH_S = 0.02  # pieces of so short a time are pushed together
STREAM_PUSH_LARGE_S = 0.25  # the same where there are many members
STREAM_LARGE_MEMBERS = 100  # from so many members on
