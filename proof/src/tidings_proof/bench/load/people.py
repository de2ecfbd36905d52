"""The clients of a benchmark: users whose tokens are signed here, given by --dev, or stand behind an API key.

A socket takes a user's token only, so with an API key there is REST and nothing else. A benchmark that needs a socket
then stops with one line that says so.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import urllib.error
import urllib.request
from typing import Any, Protocol

from tidings.clock import Clock
from tidings.config.settings import Settings
from tidings.config.values import SettingsError

TOKEN_S = 86_400  # longer than any run
ASK_S = 10.0


class People(Protocol):
    def token(self, user_id: str) -> str:
        """Return the token that a user's socket says in `connect`."""
        ...

    def headers(self, user_id: str) -> dict[str, str]:
        """Return the headers that a user's REST request carries."""
        ...


class Signed:
    """We have the secret of the server and sign as the team's own backend would."""

    def __init__(self, secret: str, issuer: str | None = None, audience: str | None = None) -> None:
        self._secret = secret.encode()
        wanted = {"iss": issuer, "aud": audience}
        self._more = {name: value for name, value in wanted.items() if value is not None}

    def token(self, user_id: str) -> str:
        now_s = Clock().now_ms() // 1000
        claims = {"sub": user_id, "iat": now_s, "exp": now_s + TOKEN_S, **self._more}
        text = f"{_base64({'alg': 'HS256', 'typ': 'JWT'})}.{_base64(claims)}"
        signature = hmac.new(self._secret, text.encode(), hashlib.sha256).digest()
        return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    def headers(self, user_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(user_id)}"}


def _base64(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class Given:
    """A server with --dev gives a token to anyone on its machine. Each is asked for once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._tokens: dict[str, str] = {}

    def token(self, user_id: str) -> str:
        if user_id not in self._tokens:
            body = json.dumps({"user_id": user_id}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{self._url}/v1/dev/token", data=body, headers=headers, method="POST")
            with urllib.request.urlopen(request, timeout=ASK_S) as answer:
                self._tokens[user_id] = str(json.load(answer)["token"])
        return self._tokens[user_id]

    def headers(self, user_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token(user_id)}"}


class Keyed:
    """The team's own backend: REST in the name of any user, no sockets."""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def token(self, user_id: str) -> str:
        raise SettingsError(
            "a socket takes a user's token and no API key: set auth.secret to the server's (--auth-secret or its file)"
        )

    def headers(self, user_id: str) -> dict[str, str]:
        return {"X-Api-Key": self._api_key, "X-User-Id": user_id}


def people_of(url: str, settings: Settings, api_key: str | None) -> People:
    """By the API key or the secret if there is one; else the server must give tokens itself, with --dev."""
    if api_key is not None:
        return Keyed(api_key)
    if settings.auth.secret is not None:
        return Signed(settings.auth.secret, settings.auth.issuer, settings.auth.audience)
    given = Given(url)
    try:
        given.token("bench")
    except urllib.error.HTTPError as error:
        raise SettingsError(
            f"{url} gives no tokens ({error.code}): set auth.secret to its secret, name an --api-key, or give it --dev"
        ) from None
    return given
