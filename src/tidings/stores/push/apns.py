"""Apple's push service: one HTTP/2 POST per notice, under a provider token signed with the team's ES256 key.

The token is made again before Apple's hour is over, and at once when Apple says ExpiredProviderToken. A device token is
forgotten only on Apple's word (Unregistered, BadDeviceToken), and not if the app registered it again since. While the
operator's key is wrong, jobs wait and none is lost.
"""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from tidings.bounds import PUSH_TTL_S
from tidings.clock import Clock
from tidings.stores.push.http import Pass, fields_of, open_client, post, retry_after_s
from tidings.stores.push.ports import SENT, Notice, Outcome, Verdict, short_id

PASS_S = 50 * 60.0  # Apple refuses tokens older than an hour, and makers of one more often than every 20 minutes
COLLAPSE_CHARS_MAX = 64  # Apple's bound on apns-collapse-id
KEY_WAIT_S = 60.0  # after a refusal of our key or token: an operator is needed, or the other clock

_GONE = frozenset(("Unregistered", "BadDeviceToken", "ExpiredToken"))
_encode = msgspec.json.Encoder().encode


class Apns:
    """`key` is the text of the .p8 file. Raises ValueError, with one line for the operator, when it is no such key."""

    def __init__(
        self,
        *,
        url: str,
        key: str,
        key_id: str,
        team_id: str,
        topic: str,
        clock: Clock,
        client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._topic = topic
        self._clock = clock
        self._client = client or open_client(has_cleartext=url.startswith("http:"))
        signer, header = es256_key(key), {"alg": "ES256", "kid": key_id}
        self._pass = Pass(lambda now_s: jwt.encode(header, {"iss": team_id, "iat": now_s}, signer), PASS_S, clock)

    async def send(self, notice: Notice) -> Outcome:
        token = self._pass.current()
        response = await self._post(notice, token)
        if isinstance(response, httpx2.Response) and fields_of(response).get("reason") == "ExpiredProviderToken":
            self._pass.renew(token)
            response = await self._post(notice, self._pass.current())
        return response if isinstance(response, Outcome) else self._outcome(notice, response)

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, notice: Notice, token: str) -> httpx2.Response | Outcome:
        headers = {
            "authorization": f"bearer {token}",
            "apns-topic": self._topic,
            "apns-push-type": "alert",  # a badge alone is one too: `background` may not carry it
            "apns-priority": "5" if notice.is_silent else "10",
            "apns-expiration": str(self._clock.now_ms() // 1000 + PUSH_TTL_S),
            "apns-collapse-id": short_id(notice.collapse_id, COLLAPSE_CHARS_MAX),
        }
        url = f"{self._url}/3/device/{notice.device.token}"
        return await post(self._client, url, headers, _encode(payload_of(notice)))

    def _outcome(self, notice: Notice, response: httpx2.Response) -> Outcome:
        status = response.status_code
        if status == 200:
            return SENT
        fields = fields_of(response)
        reason = str(fields.get("reason", status))
        if reason in _GONE or status == 410:
            # Apple says since when it is so: a token that the app registered again after that is alive.
            since_ms = fields.get("timestamp")
            is_alive = isinstance(since_ms, int) and notice.device.registered_ms > since_ms
            return Outcome(Verdict.REFUSED if is_alive else Verdict.GONE, reason)
        if status == 403:  # whatever the reason, it is about our key or its token
            return Outcome(Verdict.LATER, reason, KEY_WAIT_S, is_for_all=True)
        if status == 429 or status >= 500:
            is_for_all = reason != "TooManyRequests"  # which is about this device token alone
            return Outcome(Verdict.LATER, reason, retry_after_s(response, self._clock), is_for_all)
        return Outcome(Verdict.REFUSED, reason)


def payload_of(notice: Notice) -> dict[str, Any]:
    """The payload for the app. A silent notice has the badge only."""
    aps: dict[str, Any] = {"badge": notice.badge}
    if not notice.is_silent:
        alert = {"title": notice.title, "body": notice.body}
        aps |= {"alert": {name: text for name, text in alert.items() if text}, "sound": "default"}
    payload: dict[str, Any] = {"aps": aps}
    if notice.conversation_id is not None:
        aps["thread-id"] = notice.conversation_id
        payload |= {"conversation_id": notice.conversation_id, "seq": notice.seq_no}
        if notice.thread_seq is not None:
            payload["thread_seq"] = notice.thread_seq
    return payload


def es256_key(pem: str) -> ECKey:
    """The private P-256 key in a PEM text."""
    try:
        key = ECKey.import_key(pem)
        if key.is_private and key.as_dict(private=False).get("crv") == "P-256":
            return key
    except (JoseError, ValueError, TypeError):
        pass
    raise ValueError("it is not the PEM file of a private P-256 key")
