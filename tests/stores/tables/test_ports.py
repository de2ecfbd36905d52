"""The ports: every adapter has them all, and each is small."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args, get_type_hints

import pytest

from tidings.stores.tables import ports
from tidings.stores.tables.dynamodb import accounts as dynamodb_accounts
from tidings.stores.tables.dynamodb.archive import DynamoArchive
from tidings.stores.tables.dynamodb.conversations import DynamoConversations
from tidings.stores.tables.dynamodb.devices import DynamoDevices
from tidings.stores.tables.dynamodb.inboxes import DynamoInboxes
from tidings.stores.tables.dynamodb.log import DynamoLog
from tidings.stores.tables.dynamodb.overrides import DynamoOverrides
from tidings.stores.tables.dynamodb.pending import DynamoPending
from tidings.stores.tables.dynamodb.people import DynamoPeople
from tidings.stores.tables.dynamodb.records import DynamoRecords
from tidings.stores.tables.dynamodb.statuses import DynamoStatuses
from tidings.stores.tables.dynamodb.whole import DynamoWhole
from tidings.stores.tables.postgres.search import PostgresSearch
from tidings.stores.tables.postgres.whole import PostgresWhole
from tidings.stores.tables.sqlite.accounts import SqliteAccounts
from tidings.stores.tables.sqlite.archive import SqliteArchive
from tidings.stores.tables.sqlite.conversations import SqliteConversations
from tidings.stores.tables.sqlite.devices import SqliteDevices
from tidings.stores.tables.sqlite.inboxes import SqliteInboxes
from tidings.stores.tables.sqlite.log import SqliteLog
from tidings.stores.tables.sqlite.overrides import SqliteOverrides
from tidings.stores.tables.sqlite.pending import SqlitePending
from tidings.stores.tables.sqlite.people import SqlitePeople
from tidings.stores.tables.sqlite.records import SqliteRecords
from tidings.stores.tables.sqlite.search.index import SqliteSearch
from tidings.stores.tables.sqlite.statuses import SqliteStatuses
from tidings.stores.tables.sqlite.whole import SqliteWhole

ADAPTERS: dict[str, tuple[type[Any], ...]] = {
    "log": (SqliteLog, DynamoLog),
    "conversations": (SqliteConversations, DynamoConversations),
    "inboxes": (SqliteInboxes, DynamoInboxes),
    "statuses": (SqliteStatuses, DynamoStatuses),
    "accounts": (SqliteAccounts, dynamodb_accounts.DynamoAccounts),
    "devices": (SqliteDevices, DynamoDevices),
    "pending": (SqlitePending, DynamoPending),
    "overrides": (SqliteOverrides, DynamoOverrides),
    "people": (SqlitePeople, DynamoPeople),
    "records": (SqliteRecords, DynamoRecords),
    "search": (SqliteSearch, PostgresSearch),  # DynamoDB has none
    "archive": (SqliteArchive, DynamoArchive),
    "whole": (SqliteWhole, PostgresWhole, DynamoWhole),
}
NO_PORTS = ("ping", "quiet", "wipe", "close", "commit_max")
PORTS = [field.name for field in dataclasses.fields(ports.Tables) if field.name not in NO_PORTS]


def _port(name: str) -> type[Any]:
    """The protocol of a port, also where an adapter may have none."""
    hint = get_type_hints(ports.Tables)[name]
    protocol: type[Any] = next((part for part in get_args(hint) if part is not type(None)), hint)
    return protocol


def _methods(port: type[Any]) -> dict[str, Any]:
    return {name: owed for name, owed in inspect.getmembers(port, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("name", PORTS)
def test_every_adapter_has_the_methods_of_the_port_with_the_same_parameters(name: str) -> None:
    for adapter in ADAPTERS[name]:
        for method, owed in _methods(_port(name)).items():
            offered = inspect.signature(getattr(adapter, method))
            assert list(offered.parameters) == list(inspect.signature(owed).parameters), f"{adapter}.{method}"


@pytest.mark.parametrize("name", PORTS)
def test_each_port_is_small(name: str) -> None:
    assert 2 <= len(_methods(_port(name))) <= 10
