"""A link: it carries what it is given, until it is told not to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tidings_proof.world.proxy import Place, Proxy


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


@pytest.fixture(params=["tcp", "unix"])
async def link(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Proxy]:
    is_unix = request.param == "unix"
    target: Place
    if is_unix:
        target = tmp_path / "e.sock"
        server = await asyncio.start_unix_server(echo, str(target))
    else:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        target = server.sockets[0].getsockname()[1]
    proxy = Proxy(target, tmp_path / "p.sock" if is_unix else 0)
    await proxy.open()
    yield proxy
    await proxy.close()
    server.close()


async def connect(link: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(link.listen, Path):
        return await asyncio.open_unix_connection(str(link.listen))
    return await asyncio.open_connection("127.0.0.1", link.port)


async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, word: bytes) -> bytes:
    writer.write(word)
    async with asyncio.timeout(60):
        return await reader.readexactly(len(word))


async def test_it_carries_both_ways(link: Proxy) -> None:
    ends = await connect(link)
    assert await said(*ends, b"hello") == b"hello" and link.is_used


async def test_a_cut_link_ends_its_connections_and_refuses_new_ones_until_it_is_mended(link: Proxy) -> None:
    reader, writer = await connect(link)
    await said(reader, writer, b"one")
    await link.cut()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await said(reader, writer, b"two")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await said(*await connect(link), b"three")
    link.mend()
    assert await said(*await connect(link), b"four") == b"four"


async def test_a_frozen_link_holds_everything_back_and_loses_nothing(link: Proxy) -> None:
    reader, writer = await connect(link)
    await said(reader, writer, b"one")
    link.freeze()
    writer.write(b"two")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read(1)
    link.mend()
    assert await reader.readexactly(3) == b"two"


async def test_a_slow_and_a_dripping_link_still_carry_all_of_it(link: Proxy) -> None:
    ends = await connect(link)
    link.delay_s = 0.05
    assert await said(*ends, b"x" * 50) == b"x" * 50
    link.delay_s, link.is_dripping = 0.0, True
    assert await said(*ends, b"y" * 300) == b"y" * 300


async def test_a_dropping_link_ends_only_a_share(link: Proxy) -> None:
    ends = [await connect(link) for _ in range(20)]
    for one in ends:
        await said(*one, b"hi")
    await link.drop(0.5)
    lost = [reader.at_eof() or await _is_over(reader) for reader, _ in ends]
    assert 0 < sum(lost) < 20


async def _is_over(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(0.05):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_a_link_can_lead_elsewhere(link: Proxy, tmp_path: Path) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(100)).upper())

    server = await asyncio.start_unix_server(shout, str(tmp_path / "s.sock"))
    await link.switch(tmp_path / "s.sock")
    reader, writer = await connect(link)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"HELLO"
    server.close()
