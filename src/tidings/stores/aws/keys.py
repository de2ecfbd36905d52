"""The keys that sign requests of S3: from every source that this installation can ask.

Google's store takes requests of S3 too. They are signed with an HMAC key, in the variables that GOOGLE names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from tidings.clock import Clock
from tidings.stores.aws.profiles import ProfileKey, open_profile
from tidings.stores.aws.signatures import AwsKey

AMAZON = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
GOOGLE = ("GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY")


class Keys(Protocol):
    async def key(self) -> AwsKey:
        """A key that holds now. Raises Unavailable."""
        ...


class FixedKey:
    """A key of the environment."""

    def __init__(self, key_id: str, secret: str, token: str | None = None) -> None:
        self._key = ProfileKey(key_id, secret, token, None)

    async def key(self) -> ProfileKey:
        return self._key


def open_any_keys(region: str, clock: Clock, environment: Mapping[str, str] = os.environ) -> Keys | None:
    """None: the keys are of a role, and the extra `dynamodb`, which can ask for them, is not installed."""
    if (fixed := _fixed_key(environment, *AMAZON)) is not None:
        return fixed
    try:
        from tidings.stores.aws.credentials import open_keys
    except ImportError:
        return open_profile(environment)
    return open_keys(region, clock)


def google_key(environment: Mapping[str, str] = os.environ) -> FixedKey | None:
    """None: there is no HMAC key, so Google's own credentials are used, which sign whole objects only."""
    return _fixed_key(environment, *GOOGLE)


def _fixed_key(environment: Mapping[str, str], *names: str) -> FixedKey | None:
    key_id, secret, token = (environment.get(name, "") for name in (*names, "")[:3])
    return FixedKey(key_id, secret, token or None) if key_id and secret else None
