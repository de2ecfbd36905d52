"""Answers that no emulator gives when it is asked to: a store that is busy, and an error that looks like success."""

from __future__ import annotations

import pytest

from tests.support.servers.http_server import Heard, serve
from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Missing, Unavailable
from tidings.stores.blobs.signed_requests import SignedRequests, texts
from tidings_proof.world.ports import free_port

BUSY = (503, "<Error><Code>SlowDown</Code><Message>less</Message></Error>")
FALSE = (200, "<Error><Code>InternalError</Code></Error>")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "random_fraction", lambda self: 0.0)


async def asked(*answers: tuple[int, str]) -> tuple[str, int]:
    """The id in the answer, and how often the store was asked."""
    left, heard = list(answers), []

    def answer(request: Heard) -> tuple[int, str]:
        heard.append(request)
        return left.pop(0) if len(left) > 1 else left[0]

    async with serve(answer) as url:
        said = await SignedRequests(Clock()).ask("try", "POST", url)
    return next(texts(said, "Id")), len(heard)


async def test_a_busy_store_is_asked_again() -> None:
    done = (200, '<Done xmlns="http://s3.example/"><Id>7</Id></Done>')
    assert await asked(BUSY, FALSE, done) == ("7", 3)


async def test_a_refusal_is_told_with_its_code() -> None:
    with pytest.raises(Unavailable, match="AccessDenied no"):
        await asked((403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"), (200, "<Id>1</Id>"))
    with pytest.raises(Missing, match="NoSuchUpload"):
        await asked((404, "<Error><Code>NoSuchUpload</Code></Error>"), (200, "<Id>1</Id>"))


@pytest.mark.parametrize("answer", [BUSY, FALSE], ids=["busy", "an error with status 200"])
async def test_a_store_that_stays_busy_is_unavailable(answer: tuple[int, str]) -> None:
    with pytest.raises(Unavailable, match=r"SlowDown|InternalError"):
        await asked(answer)


async def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BLOBS_RETRIES", 1)
    with pytest.raises(Unavailable):
        await SignedRequests(Clock()).ask("try", "GET", f"http://127.0.0.1:{free_port()}/")
