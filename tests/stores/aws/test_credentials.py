"""Where keys come from, asked of small servers that answer as AWS's do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from aiodynamo.credentials import EnvironmentCredentials, Key, Metadata, MetadataCredentials, StaticCredentials
from aiodynamo.http.types import HttpImplementation

from tests.support.servers.http_server import Heard, serve
from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.aws.credentials import KeyChain, aws_domain, sources

NAMES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
FAR = "2100-01-01T00:00:00Z"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine that has no keys."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return monkeypatch


def chain(**environment: str) -> KeyChain:
    return KeyChain(Clock(), sources(environment, "eu-west-1"))


async def test_the_environment_comes_first(bare: pytest.MonkeyPatch) -> None:
    for name, value in zip(NAMES, ("id", "secret", "token"), strict=False):
        bare.setenv(name, value)
    key = await chain().key()
    assert (key.id, key.secret, key.token) == ("id", "secret", "token")


async def test_a_credentials_file_may_be_named(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[default]\naws_access_key_id = id\naws_secret_access_key = secret\n")
    key = await chain(AWS_SHARED_CREDENTIALS_FILE=str(file)).key()
    assert (key.id, key.token) == ("id", None)


STS = f"""
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult><Credentials>
    <AccessKeyId>id</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>
    <SessionToken>token</SessionToken><Expiration>{FAR}</Expiration>
  </Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>
"""


async def test_a_service_account_of_eks_exchanges_its_token_at_sts(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of the pod\n")
    heard: list[Heard] = []

    def sts(asked: Heard) -> tuple[int, str]:
        heard.append(asked)
        return 200, STS

    async with serve(sts) as url:
        keys = chain(
            AWS_WEB_IDENTITY_TOKEN_FILE=str(file), AWS_ROLE_ARN="arn:aws:iam::1:role/r", AWS_ENDPOINT_URL_STS=url
        )
        key = await keys.key()
        assert (key.id, key.secret, key.token) == ("id", "secret", "token")
        assert await keys.key() == key and len(heard) == 1  # kept until it expires
        form = parse_qs(heard[0].body)
        assert form["WebIdentityToken"] == ["of the pod"] and form["RoleArn"] == ["arn:aws:iam::1:role/r"]
        assert form["Action"] == ["AssumeRoleWithWebIdentity"] and form["RoleSessionName"] == ["tidings"]
        assert keys.invalidate()
        await keys.key()
        assert len(heard) == 2


async def test_what_sts_refuses_is_said_without_the_token(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of the pod")
    refused = "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>"
    async with serve(lambda asked: (403, refused)) as url:
        keys = chain(AWS_WEB_IDENTITY_TOKEN_FILE=str(file), AWS_ROLE_ARN="role", AWS_ENDPOINT_URL_STS=url)
        with pytest.raises(Unavailable, match="STS refuses role: AccessDenied") as said:
            await keys.key()
        assert "of the pod" not in str(said.value)


async def test_a_pod_identity_reads_its_token_from_the_file(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("of the pod")
    body = {"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token", "Expiration": FAR}
    heard: list[Heard] = []

    def agent(asked: Heard) -> tuple[int, str]:
        heard.append(asked)
        return 200, json.dumps(body)

    async with serve(agent) as url:
        bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}v1/credentials")
        keys = chain(AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(file))
        assert (await keys.key()).token == "token"
        assert heard[0].target == "/v1/credentials" and heard[0].headers["authorization"] == "of the pod"


async def test_a_task_of_ecs_asks_the_container_endpoint(bare: pytest.MonkeyPatch) -> None:
    body = json.dumps({"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "t", "Expiration": FAR})
    async with serve(lambda asked: (200, body)) as url:
        bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        assert (await chain().key()).id == "id"


async def test_nobody_with_a_key_is_said_in_one_line(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="no AWS credentials: asked nobody"):
        await chain().key()
    bare.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/")
    with pytest.raises(Unavailable, match="asked ContainerMetadata"):
        await chain().key()


async def test_a_key_that_cannot_be_renewed_is_not_invalidated(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AWS_ACCESS_KEY_ID", "id")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    keys = KeyChain(Clock(), [StaticCredentials(None), EnvironmentCredentials()])
    assert (await keys.key()).id == "id"
    assert not keys.invalidate()


@dataclass
class SlowCredentials(MetadataCredentials):
    """Answers when it is let."""

    let: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    def is_disabled(self) -> bool:
        return False

    async def fetch_metadata(self, http: HttpImplementation) -> Metadata:
        self.asked += 1
        await self.let.wait()
        return Metadata(Key("id", "secret"), datetime.now(UTC) + timedelta(hours=6))


async def test_who_gives_up_takes_the_key_from_nobody_else() -> None:
    slow = SlowCredentials()
    keys = KeyChain(Clock(), [slow])
    asking = [asyncio.ensure_future(keys.key()) for _ in range(3)]
    while not slow.asked:
        await asyncio.sleep(0)
    asking[0].cancel()
    assert isinstance((await asyncio.gather(asking[0], return_exceptions=True))[0], asyncio.CancelledError)
    slow.let.set()
    assert [key.id for key in await asyncio.gather(*asking[1:])] == ["id", "id"]
    assert (await keys.key()).id == "id" and slow.asked == 1


def test_china_has_a_domain_of_its_own() -> None:
    assert aws_domain("cn-north-1") == "amazonaws.com.cn"
    assert aws_domain("eu-west-1") == "amazonaws.com"
