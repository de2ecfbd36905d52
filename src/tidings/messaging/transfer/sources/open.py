"""The products whose exports can be imported, by the word of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidings.messaging.transfer.sources.jsonl import JsonLines
from tidings.messaging.transfer.sources.mattermost import Mattermost
from tidings.messaging.transfer.sources.rocketchat import RocketChat
from tidings.messaging.transfer.sources.slack import Slack
from tidings.messaging.transfer.sources.source import Source
from tidings.messaging.transfer.sources.zulip import Zulip

SOURCES: dict[str, Callable[[Path, Mapping[str, str]], Source]] = {
    "slack": Slack,
    "mattermost": Mattermost,
    "rocketchat": RocketChat,
    "zulip": Zulip,
    "jsonl": JsonLines,
}
