"""The contract of accounts on PostgreSQL."""

from __future__ import annotations

from tests.contracts.accounts import AccountsContract


class TestAccounts(AccountsContract): ...
