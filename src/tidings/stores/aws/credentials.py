"""AWS keys and their sources: environment, web identity (EKS service accounts), profiles, pod identity, file, ECS, EC2.

aiodynamo knows environment, file, ECS and EC2 and renews what expires; the two ways of EKS are added here. The first
source that has a key is kept. Concurrent callers share one request, and a caller that gives up does not cancel it for
the others. Keys never appear in a message or a log line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

from aiodynamo.credentials import (
    ContainerMetadataCredentials,
    Credentials,
    EnvironmentCredentials,
    FileCredentials,
    InstanceMetadataCredentialsV2,
    Key,
    Metadata,
    MetadataCredentials,
)
from aiodynamo.http.types import HttpImplementation, Request, RequestFailed, Response
from aiodynamo.utils import parse_amazon_timestamp

from tidings.clock import Clock
from tidings.errors import Unavailable
from tidings.stores.aws import bounds
from tidings.stores.aws.http import HttpFailed, fetch
from tidings.stores.aws.profiles import Profile, open_profile
from tidings.tasks import SingleFlight

_KEPT_S = 1.0  # a key is used again for so long before its source is asked, which costs a task


def aws_domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


@dataclass
class WebIdentityCredentials(MetadataCredentials):
    """IAM roles for service accounts: the pod's token is exchanged at STS for a key of the role."""

    token_file: str
    role_arn: str
    session_name: str
    sts_url: str

    def is_disabled(self) -> bool:
        return not (self.token_file and self.role_arn)

    async def fetch_metadata(self, http: HttpImplementation) -> Metadata:
        form = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": self.role_arn,
            "RoleSessionName": self.session_name,
            "WebIdentityToken": await _read(self.token_file),  # renewed by the kubelet, so read each time
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/xml"}
        answer = await http(Request("POST", self.sts_url, headers, urlencode(form).encode()))
        found = {node.tag.rpartition("}")[2]: node.text or "" for node in ElementTree.fromstring(answer.body).iter()}
        if answer.status != 200:
            raise Unavailable(f"STS refuses {self.role_arn}: {found.get('Code', answer.status)}")
        key = Key(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        return Metadata(key, parse_amazon_timestamp(found["Expiration"]))


@dataclass
class PodIdentityCredentials(ContainerMetadataCredentials):
    """EKS pod identity: the container endpoint, with a token that is read from a file each time."""

    token_file: str = ""

    def is_disabled(self) -> bool:
        return not self.token_file or super().is_disabled()

    async def fetch_metadata(self, http: HttpImplementation) -> Metadata:
        self.auth_token = await _read(self.token_file)
        return await super().fetch_metadata(http)


@dataclass
class ProfileCredentials(Credentials):
    """The profile of the process, read by botocore: SSO, a program that prints keys, a role that is assumed."""

    profile: Profile | None

    def is_disabled(self) -> bool:
        return self.profile is None

    async def get_key(self, http: HttpImplementation) -> Key | None:
        assert self.profile is not None
        found = await self.profile.key()
        return Key(found.id, found.secret, found.token)

    def invalidate(self) -> bool:
        assert self.profile is not None
        self.profile.forget()
        return True


async def _read(path: str) -> str:
    return (await asyncio.to_thread(Path(path).read_text, "utf-8")).strip()


def sources(environment: Mapping[str, str], region: str) -> list[Credentials]:
    """The sources, in the order in which AWS's own clients ask them."""
    file = environment.get("AWS_SHARED_CREDENTIALS_FILE")
    sts_url = environment.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{aws_domain(region)}/"
    return [
        EnvironmentCredentials(),
        WebIdentityCredentials(
            token_file=environment.get("AWS_WEB_IDENTITY_TOKEN_FILE", ""),
            role_arn=environment.get("AWS_ROLE_ARN", ""),
            session_name=environment.get("AWS_ROLE_SESSION_NAME", "tidings"),
            sts_url=sts_url,
        ),
        ProfileCredentials(open_profile(environment)),
        FileCredentials(path=Path(file) if file else None),
        PodIdentityCredentials(token_file=environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "")),
        ContainerMetadataCredentials(),
        InstanceMetadataCredentialsV2(),
    ]


class KeyChain:
    """The first source that has a key. It is used from then on."""

    def __init__(self, clock: Clock, candidates: Sequence[Credentials]) -> None:
        self._clock = clock
        self._candidates = [candidate for candidate in candidates if not candidate.is_disabled()]
        self._chosen: Credentials | None = None
        self._asking = SingleFlight(self._ask)
        self._kept: tuple[Key, float] | None = None  # and since when: a source renews its key minutes ahead

    async def key(self) -> Key:
        """Raises Unavailable in one line that names what was asked."""
        if self._kept is not None and self._clock.monotonic_s() - self._kept[1] < _KEPT_S:
            return self._kept[0]
        return await self._asking()

    async def _ask(self) -> Key:
        asked = []
        for candidate in self._candidates if self._chosen is None else [self._chosen]:
            try:
                found = await candidate.get_key(self._http)
            except Exception as error:  # whatever a source raises, the next one may have a key
                asked.append(f"{_name(candidate)} ({_reason(error)})")
                continue
            if found is not None:
                self._chosen, self._kept = candidate, (found, self._clock.monotonic_s())
                return found
            asked.append(_name(candidate))
        raise Unavailable(f"no AWS credentials: asked {', '.join(asked) or 'nobody, as nothing is configured'}")

    def invalidate(self) -> bool:
        """The key was refused as expired. False: it cannot be renewed."""
        self._kept = None
        return self._chosen is not None and self._chosen.invalidate()

    async def _http(self, request: Request) -> Response:
        timeout_s = bounds.CREDENTIALS_S
        try:
            answer = await fetch(
                request.method,
                request.url,
                request.headers or {},
                request.body or b"",
                clock=self._clock,
                timeout_s=timeout_s,
            )
        except HttpFailed as error:
            raise RequestFailed(error) from error
        return Response(answer.status, answer.body)


def _name(candidate: Credentials) -> str:
    return type(candidate).__name__.partition("Credentials")[0]


def _reason(error: Exception) -> str:
    inner = error.inner if isinstance(error, RequestFailed) else error
    return str(inner) or type(inner).__name__


def open_keys(region: str, clock: Clock) -> KeyChain:
    return KeyChain(clock, sources(os.environ, region))
