"""The compose files: settings that a node takes, names and ports that fit together, and a cluster that their very words
form on this machine.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.deploy_files import DEPLOY, read_yaml, wrong_settings
from tests.support.servers.haproxy import CONFIG
from tidings.bounds import DRAIN_S
from tidings.config.values import duration_s
from tidings_proof.world.cluster import binary_of
from tidings_proof.world.ports import free_port
from tidings_proof.world.valkey import ValkeyProcess

FILES = ("compose.yaml", "compose.postgresql.yaml", "compose.scale.yaml")


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(name)["services"]
    return found


def ours(name: str) -> dict[str, Any]:
    return {each: body for each, body in services(name).items() if body["image"] == "tidings"}


def nodes(name: str) -> dict[str, Any]:
    return {each: body for each, body in ours(name).items() if "entrypoint" not in body}


@pytest.mark.parametrize("name", FILES)
def test_nodes_are_given_settings_that_they_take(name: str) -> None:
    for body in ours(name).values():
        mounted = frozenset(f"/run/secrets/{secret}" for secret in body["secrets"])
        assert wrong_settings(body["environment"], mounted) == []
        assert set(body["secrets"]) <= read_yaml(name)["secrets"].keys()


@pytest.mark.parametrize("name", FILES)
def test_nodes_have_time_to_drain_and_no_rights_to_spare(name: str) -> None:
    for body in nodes(name).values():
        assert duration_s(body["stop_grace_period"]) > DRAIN_S
        assert body["cap_drop"] == ["ALL"] and body["read_only"] is True
        assert body["ulimits"]["nofile"] >= 100_000


@pytest.mark.parametrize("name", FILES)
def test_images_are_of_an_exact_version_and_nodes_have_bounded_memory(name: str) -> None:
    foreign = {body["image"] for body in services(name).values()} - {"tidings"}
    assert [image for image in foreign if not re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(@sha256:\w+)?", image)] == []
    assert all(body["mem_limit"] for body in nodes(name).values())


@pytest.mark.parametrize("name", FILES)
def test_what_is_named_is_there(name: str) -> None:
    document = read_yaml(name)
    for body in document["services"].values():
        assert set(body.get("depends_on", ())) <= document["services"].keys()
        assert set(body.get("networks", ())) <= document.get("networks", {}).keys()
        for volume in body.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in document["volumes"]
        if "build" in body:
            assert (DEPLOY / body["build"]["context"] / body["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_published_beyond_this_machine(name: str) -> None:
    published = [port for body in services(name).values() for port in body.get("ports", ())]
    assert published and all(port.startswith("127.0.0.1:") for port in published)


def test_haproxy_is_told_of_every_node_and_listens_where_it_is_published() -> None:
    scale = services("compose.scale.yaml")
    told = scale["haproxy"]["environment"]
    asked = set(re.findall(r"\$\{(\w+)-", CONFIG.read_text("utf-8")))
    assert told.keys() == asked
    assert {told[f"NODE{n}"] for n in (1, 2, 3)} == {f"{name}:8000" for name in nodes("compose.scale.yaml")}
    assert scale["haproxy"]["ports"] == [f"127.0.0.1{told['LISTEN']}:{told['LISTEN'][1:]}"]


def test_postgresql_and_valkey_are_where_the_nodes_look_for_them() -> None:
    found = services("compose.postgresql.yaml")
    settings = found["node1"]["environment"]
    for variable, scheme in (("TIDINGS_TABLES", "postgresql"), ("TIDINGS_KEYSPACE", "valkey")):
        place = urlsplit(settings[variable])
        assert place.scheme == scheme and place.hostname in found
    made = found["postgres"]["environment"]
    place = urlsplit(settings["TIDINGS_TABLES"])
    assert (place.username, place.path) == (made["POSTGRES_USER"], f"/{made['POSTGRES_DB']}")
    assert settings["PGPASSWORD"] == made["POSTGRES_PASSWORD"]


def test_the_stores_are_where_the_nodes_look_for_them() -> None:
    scale = services("compose.scale.yaml")
    settings = scale["node1"]["environment"]
    shards = [body["networks"]["inside"]["ipv4_address"] for name, body in scale.items() if name.startswith("shard")]
    assert settings["TIDINGS_KEYSPACE"] == "redis+cluster://" + ",".join(f"{address}:6379" for address in shards)
    for key in ("TIDINGS_TABLES", "TIDINGS_BLOBS"):
        host = re.search(r"endpoint=http://([\w.-]+):", settings[key])
        assert host is not None and host[1] in scale
    bucket = re.match(r"s3://([\w-]+)/", settings["TIDINGS_BLOBS"])
    assert bucket is not None and f"-name {bucket[1]}" in scale["bucket"]["command"][0]


# --- the cluster's own words, on loopback ---------------------------------------------------------


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[list[int]]:
    """Three servers with the command line of the file; only their ports differ."""
    words = shlex.split(services("compose.scale.yaml")["shard1"]["command"])
    assert words[0] == "valkey-server"
    with ExitStack() as stack:
        ports = []
        for number in range(3):
            port, bus = free_port(), free_port()
            given = [str(port) if word == "6379" else word for word in words[1:]]
            folder = tmp_path / str(number)
            folder.mkdir()
            server = ValkeyProcess(folder, (*given, "--cluster-port", str(bus), "--bind", "127.0.0.1"))
            stack.callback(server.stop)
            server.start()
            ports.append(port)
        yield ports


def test_its_words_join_the_shards_into_a_cluster_and_find_it_joined(shards: list[int]) -> None:
    cli = shutil.which("valkey-cli") or shutil.which("redis-cli")
    if cli is None or binary_of("valkey") is None:
        pytest.skip("neither valkey-cli nor redis-cli is installed (apt-get install redis-tools)")
    script = services("compose.scale.yaml")["cluster"]["command"][2].replace("$$", "$")
    script = re.sub(r"for shard in 11 12 13", "for shard in " + " ".join(map(str, shards)), script)
    script = script.replace("-h 172.30.77.$shard", "-p $shard").replace("-h 172.30.77.11", f"-p {shards[0]}")
    for number, port in zip((11, 12, 13), shards, strict=True):
        script = script.replace(f"172.30.77.{number}:6379", f"127.0.0.1:{port}")
    assert "172.30" not in script
    script = script.replace("valkey-cli", cli)
    joined = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, timeout=60)
    assert joined.returncode == 0 and "All 16384 slots covered" in joined.stdout, joined
    again = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (0, ""), again
