"""The IAM policy: every call that a node, a verb or the doctor makes is allowed, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.deploy_files import DEPLOY
from tests.support.paths import ROOT

POLICY: Any = json.loads((DEPLOY / "iam-policy.json").read_text("utf-8"))
SOURCE = "\n".join(path.read_text("utf-8") for path in (ROOT / "src/tidings/stores/tables/dynamodb").rglob("*.py"))


def allowed(service: str) -> set[str]:
    actions: set[str] = set()
    for statement in POLICY["Statement"]:
        assert statement["Effect"] == "Allow"
        named = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        actions |= {action.partition(":")[2] for action in named if action.startswith(f"{service}:")}
    return actions


def test_every_call_to_dynamodb_is_allowed_and_nothing_else() -> None:
    called = set(re.findall(r'(?:call|_pages)\(\s*"([A-Z]\w+)"', SOURCE))
    assert "TransactWriteItems" in called  # it needs the rights of its parts, and has none of its own
    parts = {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"}
    assert allowed("dynamodb") == (called - {"TransactWriteItems"}) | parts


def test_the_bucket_is_read_written_listed_and_nothing_else() -> None:
    objects = {"GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload", "ListMultipartUploadParts"}
    assert allowed("s3") == objects | {"ListBucket", "ListBucketMultipartUploads"}


def test_only_listing_names_every_table() -> None:
    wide = [statement["Action"] for statement in POLICY["Statement"] if statement["Resource"] == "*"]
    assert wide == ["dynamodb:ListTables"]
