"""The findings about the tables in DynamoDB: their definitions, their backups, and a server that does not answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.doctor_targets import named
from tests.support.servers.dynamodb_local import fresh_prefix
from tidings.clock import Clock
from tidings.stores.findings import Finding
from tidings.stores.tables.dynamodb import adapter as dynamodb_adapter
from tidings.stores.tables.dynamodb.examination import check_tables
from tidings_proof.world.dynamodb import DynamoLocal


def test_dynamodbs_tables_are_compared_and_their_backups_asked_for(dynamodb: DynamoLocal) -> None:
    url = dynamodb.url(fresh_prefix())

    async def look() -> list[Finding]:
        missing = await check_tables(url, Clock())
        assert named(missing, "tables.schema").level == "wrong" and "missing" in named(missing, "tables.schema").says
        assert named(missing, "tables.schema").fix == "tidings tables create"
        await dynamodb_adapter.create(url, Clock())
        return await check_tables(url, Clock())

    findings = asyncio.run(look())
    assert named(findings, "tables.schema").level == "ok"
    assert named(findings, "tables.backups").level in ("advice", "unknown")
    assert "DynamoDB: a read takes" in named(findings, "tables.latency").says


def test_a_dynamodb_that_does_not_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setattr("tidings.stores.tables.dynamodb.client.bounds.DEADLINE_S", 0.2)
    url = "dynamodb://eu-west-1?endpoint=http://127.0.0.1:1"
    (finding,) = asyncio.run(check_tables(url, Clock()))
    assert finding.level == "wrong" and finding.name == "tables.reachable"
