"""Requests to endpoints: to the address that was checked, without redirects, bounded in time and size."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.servers.hook_endpoint import Endpoint, open_endpoint
from tidings.stores.outbound import Outbound, fault_of, is_public, signature


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "::1",
        "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "ff02::1",
    ],
)  # fmt: skip
def test_an_address_of_the_own_network_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_an_address_of_the_world_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "http://example.org/", "https://", "https://u:p@example.org/", "https://127.0.0.1/x",
        "https://[::1]/", "https://example.org/#x", "https://example.org/a b", "nonsense", "https://[bad/",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_an_endpoint_is_refused(url: str) -> None:
    assert fault_of(url, allows_private=False)


def test_a_good_url_has_no_fault() -> None:
    assert fault_of("https://example.org:8443/hook?a=1", allows_private=False) is None
    assert fault_of("http://127.0.0.1:9/hook", allows_private=True) is None


def test_the_signature_is_over_time_and_body() -> None:
    one = signature("secret", 5, b"{}")
    assert one.startswith("t=5,v1=") and len(one) == 7 + 64
    assert len({one, signature("secret", 6, b"{}"), signature("other", 5, b"{}"), signature("secret", 5, b"[]")}) == 4


async def post(url: str, *, allows_private: bool = True, within_s: float = 30.0, most: int = 0) -> tuple[int, str]:
    outbound = Outbound(allows_private=allows_private)
    try:
        answer = await outbound.post(url, {"X-A": "b"}, b"{}", within_s=within_s, answer_bytes_max=most)
    finally:
        await outbound.close()
    return answer.status, answer.cause if not answer.status else answer.body.decode()


async def test_a_post_has_its_headers_and_an_answer() -> None:
    async with open_endpoint() as endpoint:
        endpoint.answer = "yes, all"
        assert await post(endpoint.url) == (200, "")
        assert await post(endpoint.url, most=3) == (200, "yes")
        assert endpoint.posts[0].headers["x-a"] == "b"


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async with open_endpoint() as endpoint:
        endpoint.status = 302
        assert (await post(endpoint.url))[0] == 302
        assert len(endpoint.posts) == 1


async def test_a_name_that_leads_to_a_private_address_is_not_connected_to() -> None:
    async with open_endpoint() as endpoint:
        status, cause = await post(f"http://localhost:{endpoint.port}/", allows_private=False)
        assert status == 0 and "not public" in cause
        assert endpoint.posts == []


async def test_an_endpoint_that_is_down_or_silent_is_an_answer_too() -> None:
    endpoint = Endpoint()
    await endpoint.open()
    endpoint.gate = asyncio.Event()
    status, cause = await post(endpoint.url, within_s=0.2)
    assert status == 0 and "no answer within 0.2 s" in cause
    endpoint.gate.set()
    endpoint.close()
    status, cause = await post(endpoint.url)
    assert status == 0 and cause
