"""AWS keys of profiles: SSO, `credential_process`, roles that a profile assumes, and plain keys of the two files.

botocore reads them, because it is what people's profiles are written for; it comes with the extra `aws`. Tables and
blobs ask the same source. It is asked only where the profile of the process has keys, so nothing changes elsewhere:
keys of the environment, of containers and of machines come from where they came before. botocore blocks, so it runs in
a thread. Keys never appear in a message or a log line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidings.errors import Unavailable

_ELSEWHERE = ("env", "container-role", "iam-role", "assume-role-with-web-identity")  # sources that others ask
_NEARER = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")  # in the environment these win over a profile
_HAS_KEYS = ("role_arn", "sso_session", "sso_start_url", "credential_process", "aws_access_key_id", "login_session")


class ProfileKey(NamedTuple):
    id: str
    secret: str
    token: str | None
    expires: datetime | None  # None: it never ends, or nobody knows


class Profile:
    """The profile that AWS_PROFILE names, or the default one."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._found: Any = None

    async def key(self) -> ProfileKey:
        """A key that holds now. Raises Unavailable."""
        return await asyncio.to_thread(self._key)

    def forget(self) -> None:
        """The key was refused: look again, from the beginning."""
        self._found = None

    def _key(self) -> ProfileKey:
        try:
            self._found = self._found or self._session.get_credentials()
            frozen = self._found.get_frozen_credentials() if self._found is not None else None
        except Exception as error:  # botocore has dozens of its own; each says what is wrong with the profile
            raise Unavailable(f"AWS profile: {' '.join(str(error).split())[:300]}") from None
        if frozen is None:
            raise Unavailable("AWS profile: it has no keys")
        expires: datetime | None = getattr(self._found, "_expiry_time", None)
        in_utc = expires.astimezone(UTC) if expires is not None else None
        return ProfileKey(frozen.access_key, frozen.secret_key, frozen.token, in_utc)


def open_profile(environment: Mapping[str, str] = os.environ) -> Profile | None:
    """None: botocore is not there, the profile has no keys, or something nearer has some."""
    if any(environment.get(name) for name in _NEARER):
        return None
    try:
        import botocore.session
    except ImportError:
        return None
    session = botocore.session.Session()
    try:
        settings = session.get_scoped_config()
    except Exception as error:
        raise Unavailable(f"AWS profile: {' '.join(str(error).split())[:300]}") from None
    if not any(settings.get(name) for name in _HAS_KEYS):
        return None
    resolver = session.get_component("credential_provider")
    for name in _ELSEWHERE:
        resolver.remove(name)
    return Profile(session)
