"""The endpoint of torture: it records what it reads, and is fine in the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tidings.clock import Clock, Dice
from tidings.stores.outbound import Outbound
from tidings_proof.judge.history import History, read_history
from tidings_proof.people.endpoint import Endpoint


async def test_every_request_is_recorded_with_its_answer(tmp_path: Path) -> None:
    history = History(tmp_path / "h", Clock())
    endpoint, outbound = Endpoint(history, Dice(1)), Outbound(allows_private=True)
    url = await endpoint.open()
    try:
        endpoint._mood, endpoint._mood_until_s = "wrong", 1e9
        body = json.dumps({"conversation_id": "c1", "entries": [{"seq": 1}, {"seq": 2}]}).encode()
        headers = {"Idempotency-Key": "k"}
        assert (await outbound.post(url, headers, body, within_s=60)).status == 503
        endpoint._mood = "away"
        assert (await outbound.post(url, headers, body, within_s=60)).status == 0
        endpoint.is_healed = True
        assert (await outbound.post(url, headers, body, within_s=60)).status == 200
        async with asyncio.timeout(60):
            await endpoint.settle({"c1": 2}, 30)
    finally:
        await outbound.close()
        endpoint.close()
        history.close()
    records = list(read_history(tmp_path / "h"))
    assert [(one.text, one.value) for one in records] == [("k", [status, [1, 2]]) for status in (503, 0, 200)]
    assert endpoint.have == {"c1": 2}
