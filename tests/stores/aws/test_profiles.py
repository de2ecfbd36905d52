"""Keys of AWS profiles: a program that prints them, a role that is assumed, and what happens without any."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from tests.support.servers.moto_server import S3Server
from tests.support.servers.moto_server import s3 as s3
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.aws.credentials import open_keys
from tidings.stores.aws.profiles import open_profile
from tidings.stores.blobs.obstore import open_blobs

pytest.importorskip("botocore")
FAR = "2100-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without keys. Returns the file of its profiles."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path / "config"


def write(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")


def printing(folder: Path, **answer: object) -> str:
    """A program that prints a key. It counts its calls."""
    program = folder / "keys.py"
    program.write_text(
        f"import pathlib\npathlib.Path({str(folder / 'calls')!r}).open('a').write('x')\nprint({json.dumps(answer)!r})"
    )
    program.chmod(stat.S_IRWXU)
    return f"{sys.executable} {program}"


async def test_a_program_that_prints_keys_is_asked_for_tables_and_blobs(bare: Path, tmp_path: Path) -> None:
    program = printing(
        tmp_path, Version=1, AccessKeyId="id", SecretAccessKey="secret", SessionToken="t", Expiration=FAR
    )
    write(bare, f"[default]\ncredential_process = {program}\n")
    key = await open_keys("eu-west-1", Clock()).key()
    assert (key.id, key.secret, key.token) == ("id", "secret", "t")
    profile = open_profile()
    assert profile is not None
    found = await profile.key()
    assert (found.id, found.expires is not None and found.expires.year) == ("id", 2100)
    before = (tmp_path / "calls").read_text("utf-8")
    assert await profile.key() == found and (tmp_path / "calls").read_text("utf-8") == before


async def test_a_role_that_a_profile_assumes_reads_and_writes_blobs(
    bare: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        bare,
        "[profile base]\naws_access_key_id = of-the-tests\naws_secret_access_key = of-the-tests\n"
        "[profile role]\nrole_arn = arn:aws:iam::123456789012:role/tidings\n"
        "source_profile = base\nregion = eu-west-1\n",
    )
    monkeypatch.setenv("AWS_PROFILE", "role")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.endpoint)
    key = await open_keys("eu-west-1", Clock()).key()
    assert key.id.startswith("ASIA") and key.token
    blobs = open_blobs(s3.url("role"), Clock())
    assert await blobs.put("a/b", b"words") and await blobs.get("a/b") == b"words"


async def test_keys_of_the_environment_are_nearer_than_a_profile(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bare, "[default]\naws_access_key_id = far\naws_secret_access_key = far\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "near")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "near")
    assert open_profile() is None
    assert (await open_keys("eu-west-1", Clock()).key()).id == "near"


def test_without_a_profile_nothing_changes(bare: Path) -> None:
    assert open_profile() is None
    write(bare, "[default]\nregion = eu-west-1\n")
    assert open_profile() is None


async def test_a_profile_that_does_not_work_says_why(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(bare, f"[default]\ncredential_process = {sys.executable} -c exit(3)\n")
    profile = open_profile()
    assert profile is not None
    with pytest.raises(Unavailable, match="AWS profile: "):
        await profile.key()
    monkeypatch.setenv("AWS_PROFILE", "nowhere")
    with pytest.raises(Unavailable, match="nowhere"):
        open_profile()
