"""Google's push service, HTTP v1: one POST per notice, under an OAuth token that the service account asks for.

The token is kept until shortly before it expires and asked for again when Google answers 401; requests that wait for it
wait for the same one. A quota of the whole project pauses the provider, one of a single device only that device.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from tidings.bounds import PUSH_TTL_S
from tidings.clock import Clock
from tidings.stores.push.http import fields_of, open_client, post, retry_after_s
from tidings.stores.push.ports import SENT, Notice, Outcome, Verdict, short_id

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT_S = 3600  # the longest life that Google gives an assertion
SPARE_S = 300.0  # a token is asked for again this much before its end
ACCOUNT_WAIT_S = 60.0  # after the account was refused: an operator is needed
COLLAPSE_CHARS_MAX = 64  # well below Google's bound, and the same as Apple's, who may carry it

_encode = msgspec.json.Encoder().encode


class Account(msgspec.Struct, frozen=True):
    """The fields of a service account's JSON file that are needed."""

    project_id: str
    client_email: str
    private_key: str
    private_key_id: str = ""
    token_uri: str = "https://oauth2.googleapis.com/token"


class Fcm:
    """`credentials` is the text of the service account's file. Raises ValueError for any other text."""

    def __init__(self, *, url: str, credentials: str, clock: Clock, client: httpx2.AsyncClient | None = None) -> None:
        account, key = read_account(credentials)
        self._url = f"{url.rstrip('/')}/v1/projects/{quote(account.project_id, safe='')}/messages:send"
        self._clock = clock
        self._client = client or open_client(has_cleartext=url.startswith("http:"))
        self._grant = _Grant(account, key, self._client, clock)

    async def send(self, notice: Notice) -> Outcome:
        token = await self._grant.current()
        if isinstance(token, Outcome):
            return token
        response = await self._post(notice, token)
        if isinstance(response, httpx2.Response) and response.status_code == 401:
            token = await self._grant.renew(token)
            if isinstance(token, Outcome):
                return token
            response = await self._post(notice, token)
        return response if isinstance(response, Outcome) else self._outcome(response)

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, notice: Notice, token: str) -> httpx2.Response | Outcome:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return await post(self._client, self._url, headers, _encode({"message": message_of(notice)}))

    def _outcome(self, response: httpx2.Response) -> Outcome:
        status = response.status_code
        if status == 200:
            return SENT
        error = fields_of(response).get("error")
        error = error if isinstance(error, dict) else {}
        reason = error_code(error) or str(error.get("status", status))
        if reason == "UNREGISTERED" or _is_bad_token(error):
            return Outcome(Verdict.GONE, reason)
        if status == 401 or (status == 403 and error_code(error) is None):  # with a code it is about this device alone
            return Outcome(Verdict.LATER, reason, ACCOUNT_WAIT_S, is_for_all=True)
        if status == 429 or status >= 500:
            # QUOTA_EXCEEDED as FCM's own code is about one device; without it the project's rate is meant.
            is_for_all = reason != "QUOTA_EXCEEDED"
            return Outcome(Verdict.LATER, reason, retry_after_s(response, self._clock), is_for_all)
        return Outcome(Verdict.REFUSED, reason)


class _Grant:
    """The OAuth token: asked for once for all who wait for it."""

    def __init__(self, account: Account, key: RSAKey, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._account = account
        self._key = key
        self._client = client
        self._clock = clock
        self._token = ""
        self._until_s = 0.0
        self._asking = asyncio.Lock()

    async def current(self) -> str | Outcome:
        if self._token and self._clock.monotonic_s() < self._until_s:
            return self._token
        async with self._asking:
            if self._token and self._clock.monotonic_s() < self._until_s:
                return self._token
            return await self._ask()

    async def renew(self, refused: str) -> str | Outcome:
        """Get another token, if `refused` is still the current one."""
        if refused == self._token:
            self._token = ""
        return await self.current()

    async def _ask(self) -> str | Outcome:
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": self._assertion()}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        response = await post(self._client, self._account.token_uri, headers, urlencode(form).encode())
        if isinstance(response, Outcome):
            return Outcome(Verdict.LATER, response.reason, is_for_all=True)
        fields = fields_of(response)
        token, life_s = fields.get("access_token"), fields.get("expires_in", GRANT_S)
        if response.status_code != 200 or not isinstance(token, str) or not isinstance(life_s, int):
            wait_s = retry_after_s(response, self._clock) or ACCOUNT_WAIT_S
            return Outcome(Verdict.LATER, str(fields.get("error", response.status_code)), wait_s, is_for_all=True)
        self._token = token
        self._until_s = self._clock.monotonic_s() + max(life_s - SPARE_S, life_s / 2)
        return token

    def _assertion(self) -> str:
        now_s = self._clock.now_ms() // 1000
        claims = {
            "iss": self._account.client_email,
            "scope": SCOPE,
            "aud": self._account.token_uri,
            "iat": now_s,
            "exp": now_s + GRANT_S,
        }
        return jwt.encode({"alg": "RS256", "kid": self._account.private_key_id}, claims, self._key)


def message_of(notice: Notice) -> dict[str, Any]:
    """The payload for the app. A silent notice has data only, and Android shows the user nothing."""
    collapse_id = short_id(notice.collapse_id, COLLAPSE_CHARS_MAX)
    data = {"badge": str(notice.badge), "collapse_id": collapse_id}
    if notice.conversation_id is not None:
        data |= {"conversation_id": notice.conversation_id, "seq": str(notice.seq_no)}
        if notice.thread_seq is not None:
            data["thread_seq"] = str(notice.thread_seq)
    android: dict[str, Any] = {
        "priority": "NORMAL" if notice.is_silent else "HIGH",
        "ttl": f"{PUSH_TTL_S}s",
        "collapse_key": collapse_id,
    }
    aps: dict[str, Any] = {"badge": notice.badge}
    headers = {"apns-collapse-id": collapse_id, "apns-priority": "5" if notice.is_silent else "10"}
    message: dict[str, Any] = {
        "token": notice.device.token,
        "data": data,
        "android": android,
        "apns": {"headers": headers, "payload": {"aps": aps}},
    }
    if not notice.is_silent:
        alert = {"title": notice.title, "body": notice.body}
        message["notification"] = {name: text for name, text in alert.items() if text}
        android["notification"] = {"tag": collapse_id, "notification_count": notice.badge}
        aps["sound"] = "default"
    return message


def error_code(error: dict[str, Any]) -> str | None:
    """FCM's own code among the details of a refusal."""
    for detail in error.get("details", ()):
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith(".FcmError"):
            return str(detail.get("errorCode"))
    return None


def _is_bad_token(error: dict[str, Any]) -> bool:
    """INVALID_ARGUMENT may be about anything; only its words say that it is about the token."""
    return error_code(error) == "INVALID_ARGUMENT" and "registration token" in str(error.get("message", ""))


def read_account(credentials: str) -> tuple[Account, RSAKey]:
    try:
        account = msgspec.json.decode(credentials, type=Account)
        key = RSAKey.import_key(account.private_key)
        if key.is_private:
            return account, key
    except (msgspec.DecodeError, JoseError, ValueError, TypeError):
        pass
    raise ValueError("it is not the JSON file of a service account with its private key")
