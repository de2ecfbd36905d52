"""The servers of a keyspace are found and spoken to in whatever state they are; who cannot be reached is told why."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.doctor_targets import named, server_of, settings_for, valkey
from tests.support.nodes.node_process import NodeProcess
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.operators.doctor.servers import Server, open_servers, refusal
from tidings.stores.findings import Finding
from tidings.stores.keyspace.embedded_folder import FOLDER_NAME
from tidings.stores.keyspace.wire import Address, Wire
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess


async def findings_of(folder: Path, url: str) -> list[Finding]:
    async with open_servers(settings_for(folder, url), Clock()) as found:
        return found.findings


async def test_a_wrong_password_is_named_with_the_setting_to_change(tmp_path: Path) -> None:
    with valkey(tmp_path, "--requirepass", "right") as server:
        wrong_one = named(await findings_of(tmp_path, f"unix://:wrong@{server.socket}"), "keyspace.reachable")
        none = named(await findings_of(tmp_path, server.url), "keyspace.reachable")
    assert wrong_one.level == "wrong" and "wrong user or password" in wrong_one.says
    assert "TIDINGS_KEYSPACE=redis://USER:PASSWORD@" in wrong_one.fix
    assert "it wants a password" in none.says and "right" not in none.says + wrong_one.says
    assert wrong_one.where == server.url


async def test_a_server_that_is_not_there_is_wrong(tmp_path: Path) -> None:
    assert "connection refused" in named(await findings_of(tmp_path, "redis://127.0.0.1:1"), "keyspace.reachable").says
    assert "no such socket" in named(await findings_of(tmp_path, "unix:///no/where"), "keyspace.reachable").says


async def test_a_refusal_is_an_answer(valkey: ValkeyProcess) -> None:
    async with server_of(valkey) as server:
        answers = await server.ask_all([("PING",), ("NONSENSE", "a")])
        assert refusal(answers[0]) == "" and refusal(answers[1]).startswith("ERR unknown command")
        assert server.cli == f"valkey-cli -s {valkey.socket}"


async def test_a_fix_goes_to_the_same_database_as_the_same_user_and_shows_no_password(tmp_path: Path) -> None:
    with valkey(tmp_path, "--requirepass", "right") as patient:
        patient.ask_all([["AUTH", "right"], ["ACL", "SETUSER", "ann", "on", ">hidden", "~*", "&*", "+@all"]])
        for words, shown in {
            "ann:hidden": "--user ann --askpass -n 3",
            ":right": "--askpass -n 3",
        }.items():
            url = f"unix://{words}@{patient.socket}?db=3"
            async with open_servers(settings_for(tmp_path, url), Clock()) as found:
                assert [server.cli for server in found.servers] == [f"valkey-cli -s {patient.socket} {shown}"]


async def test_what_a_fix_names_is_one_word_of_the_shell() -> None:
    wire = Wire("", lambda n: None, lambda wire, reason: None)
    cli = Server(Address(path="/run/my valkey/v.sock", user="ann; ls"), wire).cli
    assert shlex.split(cli) == ["valkey-cli", "-s", "/run/my valkey/v.sock", "--user", "ann; ls"]


async def test_rights_are_given_by_an_administrator_and_not_by_who_lacks_them(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask("ACL", "SETUSER", "few", "on", ">p", "~*", "+ping", "+client|setname")
        async with open_servers(settings_for(tmp_path, f"unix://few:p@{patient.socket}"), Clock()) as found:
            fix = found.servers[0].permit("+info", "+config|get")
    told = f"valkey-cli -s {patient.socket} --askpass ACL SETUSER few +info '+config|get'"
    assert fix == f"as an administrator: {told}"


@pytest.mark.parametrize("name", ["data", "disk1", "this is mine"])
async def test_a_folder_of_another_user_is_told_with_who_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / name / FOLDER_NAME
    folder.mkdir(mode=0o700, parents=True)
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    finding = named(await findings_of(tmp_path / name, "embedded"), "keyspace.reachable")
    owner = f'"$(stat -c %U {shlex.quote(str(folder))})"'
    assert finding.level == "wrong" and finding.fix.endswith(f"sudo --preserve-env -u {owner} tidings doctor")
    assert "with the node's TIDINGS_* settings" in finding.fix


async def test_a_server_that_hangs_is_given_up(valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.operators.doctor.servers.KEYSPACE_COMMAND_S", 0.05)
    async with server_of(valkey) as server:
        valkey.pause()
        try:
            with pytest.raises(Unavailable, match="no answer"):
                await server.ask("PING")
        finally:
            valkey.resume()


async def test_what_a_server_refuses_to_tell_is_left_out(tmp_path: Path) -> None:
    with valkey(tmp_path) as patient:
        patient.ask("ACL", "SETUSER", "few", "on", ">p", "~*", "+ping", "+client|setname")
        async with open_servers(settings_for(tmp_path, f"unix://few:p@{patient.socket}"), Clock()) as found:
            (server,) = found.servers
            assert await server.info("server") == {} and await server.config("save") == {}


async def test_a_single_server_is_not_a_cluster(tmp_path: Path) -> None:
    port = free_port()
    with valkey(tmp_path, "--port", str(port)):
        finding = named(await findings_of(tmp_path, f"redis+cluster://127.0.0.1:{port}"), "keyspace.reachable")
    assert finding.level == "wrong" and "cluster support disabled" in finding.says


async def test_the_embedded_server_is_started_for_the_look_or_shared_with_a_node(tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir()
    assert named(await findings_of(data, "embedded"), "keyspace.reachable").level == "ok"
    assert list(data.iterdir()) == []
    with NodeProcess(data) as node:
        node.start()
        async with open_servers(settings_for(data), Clock()) as found:
            assert (await found.servers[0].info("server"))["process_id"] == str(node.valkey_pid())
        node.stop()
    async with open_servers(settings_for(data), Clock()) as found:
        assert await found.servers[0].ask("PING") == b"PONG"
