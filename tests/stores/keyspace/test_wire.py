"""The wire: addresses, answers in order, and every way a connection ends."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import certificate
from tidings.errors import Unavailable
from tidings.stores.keyspace.call import Call, plain
from tidings.stores.keyspace.wire import Address, ErrorReply, Run, Wire, dial, parse_address, spelled
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess, start_valkey


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyProcess]:
    process = start_valkey(tmp_path)
    yield process
    process.stop()


class Told:
    """What a wire reports to its owner."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.lost: list[str] = []

    def wire(self) -> Wire:
        return Wire("here", self.written.append, lambda wire, reason: self.lost.append(reason))


async def wire_to(url: str, told: Told) -> Wire:
    wire = told.wire()
    await dial(parse_address(url), wire)
    return wire


def echo(text: str) -> Call[Any]:
    return plain("", "ECHO", text)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h:7000/3", Address(host="h", port=7000, db=3)),
        ("redis://h", Address(host="h")),
        ("redis://[::1]:7/", Address(host="::1", port=7)),
        ("redis://:p%40ss@h:1?prefix=a", Address(host="h", port=1, password="p@ss")),
        ("rediss://bob:pw@h:1/0", Address(host="h", port=1, is_tls=True, user="bob", password="pw")),
        ("unix:///run/v.sock?db=2", Address(path="/run/v.sock", db=2)),
        ("unix://bob:pw@/run/a%20b.sock", Address(path="/run/a b.sock", user="bob", password="pw")),
    ],
)
def test_a_url_says_where_the_server_is_and_who_we_are(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://secret@h", "starts with redis://, rediss:// or unix://, not 'http'"),
        ("redis://h?tls=secret", "no option 'tls'"),
        ("redis://h/first", "is a number, not 'first'"),
        ("unix://", "unix:///run/valkey.sock"),
        ("unix://run/v.sock", "unix:///run/valkey.sock"),
        ("redis://bob:secret/x@h:1", "percent-encoded"),
    ],
)
def test_a_bad_url_is_refused_in_one_line_without_its_password(url: str, line: str) -> None:
    with pytest.raises(ValueError, match="keyspace URL") as caught:
        parse_address(url)
    assert line in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_label_has_no_password() -> None:
    assert parse_address("rediss://bob:secret@h:1/2").label == "rediss://h:1"
    assert parse_address("unix://bob:secret@/v.sock").label == "unix:///v.sock"


async def test_answers_belong_to_their_runs_however_many_wait(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    sizes = [1 + (7 * n) % 64 for n in range(300)]
    runs = await asyncio.gather(
        *(wire.send([echo(f"{n}:{at}" * (1 + n % 50)) for at in range(size)]) for n, size in enumerate(sizes))
    )
    for n, (run, size) in enumerate(zip(runs, sizes, strict=True)):
        assert run.answers == [(f"{n}:{at}" * (1 + n % 50)).encode() for at in range(size)]
    wire.cut("done")


async def test_what_is_sent_in_one_turn_leaves_in_one_write(valkey: ValkeyProcess) -> None:
    told = Told()
    wire = await wire_to(valkey.url, told)
    await asyncio.gather(*(wire.send([echo("a"), echo("b")]) for _ in range(10)))
    assert told.written == [20]
    wire.cut("done")


async def test_an_empty_run_is_answered_without_the_server(valkey: ValkeyProcess) -> None:
    told = Told()
    wire = await wire_to(valkey.url, told)
    assert (await wire.send([])).answers == []
    assert told.written == []
    wire.cut("done")


async def test_the_epoch_of_the_connection_is_put_where_the_call_wants_it(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    wire.epoch = "life-1"
    inside = Call("k", ("RPUSH", "k", "a", "b"), int, epoch_at=3)
    last = Call("k", ("RPUSH", "k", 7), int, epoch_at=3)
    run = await wire.send([inside, last, plain("k", "LRANGE", "k", 0, -1)])
    assert run.answers[2] == [b"a", b"life-1", b"b", b"7", b"life-1"]
    wire.cut("done")


async def test_zero_nothing_and_refusals_are_answers_in_their_places(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    calls = [plain("k", "DEL", "k"), plain("k", "GET", "k"), plain("", "NOSUCH"), plain("k", "EXISTS", "k")]
    faulty, clean = await asyncio.gather(wire.send(calls), wire.send(calls[:2]))
    assert faulty.answers[0] == 0 and faulty.answers[1] is None and faulty.answers[3] == 0
    assert isinstance(faulty.answers[2], ErrorReply) and faulty.answers[2].code == "ERR"
    assert faulty.is_faulty and not clean.is_faulty
    wire.cut("done")


async def test_a_cancelled_run_does_not_shift_the_answers_of_the_next(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    given_up = wire.send([echo("a"), echo("b")])
    given_up.cancel()
    assert (await wire.send([echo("c")])).answers == [b"c"]
    wire.cut("done")


async def test_a_call_that_cannot_be_packed_harms_no_other(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    bad: Any = object()
    with pytest.raises(TypeError):
        wire.send([echo("a"), plain("", "ECHO", bad)])
    assert (await wire.send([echo("b")])).answers == [b"b"]
    wire.cut("done")


async def test_a_large_answer_is_put_together_from_its_pieces(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    large = "x" * 3_000_000
    run = await wire.send([echo("a"), echo(large), echo("b")])
    assert run.answers == [b"a", large.encode(), b"b"]
    wire.cut("done")


async def test_a_server_that_dies_leaves_every_waiting_run_ambiguous(valkey: ValkeyProcess) -> None:
    told = Told()
    wire = await wire_to(valkey.url, told)
    valkey.pause()
    waiting = [wire.send([echo("a")]) for _ in range(3)]
    await asyncio.sleep(0)
    valkey.kill()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, Unavailable) and result.is_ambiguous for result in results)
    assert len(told.lost) == 1
    with pytest.raises(Unavailable, match="down"):
        wire.send([echo("a")])


async def test_more_runs_than_the_bound_are_refused(valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.stores.keyspace.wire.KEYSPACE_RUNS_MAX", 2)
    wire = await wire_to(valkey.url, Told())
    taken = [wire.send([echo("a")]) for _ in range(2)]
    with pytest.raises(Unavailable, match="too much") as caught:
        wire.send([echo("b")])
    assert not caught.value.is_ambiguous
    assert all(isinstance(run, Run) for run in await asyncio.gather(*taken))
    wire.cut("done")


async def speaking(answer: bytes) -> tuple[asyncio.Server, str]:
    """A server that answers whatever it hears with these bytes."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    return server, f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the Redis protocol"), (b"+a\r\n+b\r\n", "nobody asked for")],
)
async def test_answers_that_cannot_be_matched_end_the_connection(answer: bytes, reason: str) -> None:
    server, url = await speaking(answer)
    told = Told()
    wire = await wire_to(url, told)
    await asyncio.gather(wire.send([echo("a")]), return_exceptions=True)
    assert wire.is_lost and reason in told.lost[0]
    server.close()


async def test_a_refused_connection_is_said_in_one_line(tmp_path: Path) -> None:
    for url, reason in (
        (f"redis://127.0.0.1:{free_port()}", "connection refused"),
        (f"unix://{tmp_path}/none.sock", "there is no such socket"),
    ):
        with pytest.raises(Unavailable, match=reason) as caught:
            await wire_to(url, Told())
        assert "\n" not in str(caught.value)


async def tls_in_front_of(valkey: ValkeyProcess, pair: Path, wants: Path | None = None) -> tuple[asyncio.Server, str]:
    """`wants`: the authority of the certificate that a client must show."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=wants)
    context.load_cert_chain(pair)
    context.verify_mode = ssl.CERT_REQUIRED if wants else ssl.CERT_NONE

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_unix_connection(str(valkey.socket))
        await asyncio.gather(copy(reader, back_writer), copy(back_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    return server, f"rediss://localhost:{server.sockets[0].getsockname()[1]}"


async def test_tls_works_with_a_trusted_certificate_and_with_no_other(
    valkey: ValkeyProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = certificate(tmp_path)
    server, url = await tls_in_front_of(valkey, pair)
    with pytest.raises(Unavailable, match="certificate is not trusted"):
        await wire_to(url, Told())
    monkeypatch.setenv("SSL_CERT_FILE", str(pair))
    wire = await wire_to(url, Told())
    assert (await wire.send([echo("a")])).answers == [b"a"]
    wire.cut("done")
    server.close()


async def test_a_client_certificate_is_shown_to_a_server_that_wants_one(valkey: ValkeyProcess, tmp_path: Path) -> None:
    pair = certificate(tmp_path)
    server, url = await tls_in_front_of(valkey, pair, wants=pair)
    with pytest.raises(Unavailable, match=r"it wants a client certificate|lost|closed"):  # the alert may come too late
        await (await wire_to(f"{url}?ca={pair}", Told())).send([echo("a")])
    wire = await wire_to(f"{url}?ca={pair}&cert={pair}&key={pair}", Told())
    assert (await wire.send([echo("a")])).answers == [b"a"]
    wire.cut("done")
    with pytest.raises(Unavailable, match=r"cannot use .*nowhere\.pem: No such file or directory"):
        await wire_to(f"{url}?ca={tmp_path}/nowhere.pem", Told())
    server.close()


async def test_the_alert_of_a_server_that_wants_a_certificate_becomes_the_fix() -> None:
    told = Told()
    wire = Wire("here", lambda count: None, lambda wire, reason: told.lost.append(reason))
    wire.connection_lost(ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required"))
    assert told.lost == ["it wants a client certificate: ?cert=FILE&key=FILE in the URL"]


def test_a_password_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    address = parse_address(f"redis://bob@h:1?password_file={file}")
    with pytest.raises(Unavailable, match=r"cannot read the password file .*: No such file"):
        address.secret()
    for password in ("one", "two"):
        file.write_text(f"{password}\n")
        assert address.secret() == password
    assert parse_address("redis://:pw@h").secret() == "pw" and parse_address("redis://h").secret() == ""


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("valkey://h:1/2", "redis://h:1/2"),
        ("valkeys://bob:redis@h:1", "rediss://bob:redis@h:1"),
        ("valkey+cluster://h", "redis+cluster://h"),
        ("unix:///valkey", "unix:///valkey"),
    ],
)
def test_valkey_is_a_spelling_of_redis(url: str, other: str) -> None:
    assert spelled(url) == other


async def test_a_finished_run_is_freed_without_the_garbage_collector(valkey: ValkeyProcess) -> None:
    wire = await wire_to(valkey.url, Told())
    gc.collect()
    gc.disable()
    try:
        answers = [(await wire.send([echo("a")])).answers for _ in range(10)]
        await asyncio.sleep(0)  # the loop holds the future that woke us until its next turn
        left = [one for one in gc.get_objects() if isinstance(one, Run)]
    finally:
        gc.enable()
        wire.cut("the test is over")
    assert answers == [[b"a"]] * 10 and left == []
