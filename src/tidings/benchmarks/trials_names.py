"""The names of the trials and their words on the command line: all that `tidings --help` needs, without an import."""

ABOUT = {
    "connect": "connects a second: a socket, its hello, and gone again",
    "send": "durable messages, acknowledged and received, between pairs of users",
    "fanout": "posts in a channel, of which many members are online",
    "inbox": "opens of an inbox with many conversations",
    "history": "pages of 20 messages, newest first",
    "limiter": "decisions about senders who are past their limit",
    "resume": "clients that come back all at once to what they missed",
    "archive": "pages of 20 messages out of the cold tier",
}
CLIENTS = {
    "connect": 50,
    "send": 100,
    "fanout": 50,
    "inbox": 16,
    "history": 16,
    "limiter": 10,
    "resume": 200,
    "archive": 8,
}
OPTIONS: dict[str, tuple[str, ...]] = {
    "send": ("in_flight", "rate"),
    "fanout": ("in_flight", "members"),
    "inbox": ("conversations",),
    "history": ("messages",),
    "archive": ("messages", "conversation_id", "user_id"),
}
