"""Web Push: a notice encrypted for one browser (RFC 8291), posted to its push service under our VAPID key (RFC 8292).

The push service cannot read the notice. A notice goes only to hosts on the operator's list: the address came from a
client. A browser shows every push to its user, so a silent notice is not sent at all.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey

from tidings.base64url import from_base64url, to_base64url
from tidings.bounds import PUSH_TTL_S
from tidings.clock import Clock
from tidings.stores.push.apns import es256_key
from tidings.stores.push.http import Pass, open_client, post, retry_after_s
from tidings.stores.push.ports import SENT, Notice, Outcome, Verdict, is_endpoint
from tidings.tasks import Recent

PASS_S = 6 * 3600.0  # a VAPID token lives twice as long; RFC 8292 allows a day
RECORD_BYTES = 4096  # one record holds every notice; push services take no more
TOPIC_CHARS_MAX = 32  # RFC 8030
KEY_WAIT_S = 600.0  # after a refusal of our key: an operator is needed, or the browser subscribes anew
HOSTS_MAX = 1_000  # passes kept, one per push service; there are a handful

_encode = msgspec.json.Encoder().encode


class WebPush:
    """`key` is the PEM text of the VAPID key. Raises ValueError when it is no P-256 key."""

    def __init__(
        self, *, key: str, contact: str, hosts: Sequence[str], clock: Clock, client: httpx2.AsyncClient | None = None
    ) -> None:
        self._key = es256_key(key)
        self._contact = contact
        self._hosts = tuple(hosts)
        self._clock = clock
        self._client = client or open_client()
        self._passes = Recent[str, Pass](HOSTS_MAX)
        self.public_key = public_key_of(self._key)

    async def send(self, notice: Notice) -> Outcome:
        device = notice.device
        if notice.is_silent:
            return Outcome(Verdict.SKIPPED, "silent")
        if not is_endpoint(device.token, self._hosts):
            return Outcome(Verdict.REFUSED, "host")
        try:
            salt = bytes.fromhex(self._clock.random_id(16))
            content = encrypt(_encode(payload_of(notice)), device.p256dh or "", device.auth or "", salt)
        except ValueError:
            return Outcome(Verdict.GONE, "keys")  # nobody could ever read what is encrypted for these
        response = await post(self._client, device.token, self._headers(notice), content, has_one_host=False)
        return response if isinstance(response, Outcome) else self._outcome(response)

    async def close(self) -> None:
        await self._client.aclose()

    def _headers(self, notice: Notice) -> dict[str, str]:
        return {
            "authorization": f"vapid t={self._pass_for(notice.device.token)}, k={self.public_key}",
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(PUSH_TTL_S),
            "urgency": "high",
            "topic": topic_of(notice.collapse_id),
        }

    def _pass_for(self, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._passes:
            self._passes.put(origin, Pass(lambda now_s: self._sign(origin, now_s), PASS_S, self._clock))
        return self._passes[origin].current()

    def _sign(self, origin: str, now_s: int) -> str:
        claims = {"aud": origin, "exp": now_s + int(2 * PASS_S), "sub": self._contact}
        return jwt.encode({"alg": "ES256", "typ": "JWT"}, claims, self._key)

    def _outcome(self, response: httpx2.Response) -> Outcome:
        status = response.status_code
        if 200 <= status < 300:
            return SENT
        if status in (404, 410):
            return Outcome(Verdict.GONE, str(status))
        if status in (401, 403):
            # RFC 8292: our token is not valid, or is not of the key that this subscription was made for. Services do
            # not agree on which is which, so the others are asked on.
            return Outcome(Verdict.LATER, str(status), KEY_WAIT_S)
        if status == 429 or status >= 500:
            return Outcome(Verdict.LATER, str(status), retry_after_s(response, self._clock))
        return Outcome(Verdict.REFUSED, str(status))


def payload_of(notice: Notice) -> dict[str, Any]:
    """The payload for the page's service worker."""
    thread = {} if notice.thread_seq is None else {"thread_seq": notice.thread_seq}
    return {
        "title": notice.title,
        "body": notice.body,
        "badge": notice.badge,
        "tag": notice.collapse_id,
        "conversation_id": notice.conversation_id,
        "seq": notice.seq_no,
        **thread,
    }


def encrypt(
    text: bytes, p256dh: str, auth: str, salt: bytes, sender: ec.EllipticCurvePrivateKey | None = None
) -> bytes:
    """Encrypt for the holder of the subscription's keys (RFC 8291). `sender` is a new key, except for the example of
    the RFC. Raises ValueError when the keys are not valid."""
    receiver = _decoded(p256dh, 65)
    sender = sender or ec.generate_private_key(ec.SECP256R1())
    ours = sender.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    shared = sender.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), receiver))
    secret = _hmac(_hmac(_decoded(auth, 16), shared), b"WebPush: info\0" + receiver + ours + b"\x01")
    seed = _hmac(salt, secret)
    key = _hmac(seed, b"Content-Encoding: aes128gcm\0\x01")[:16]
    nonce = _hmac(seed, b"Content-Encoding: nonce\0\x01")[:12]
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes((len(ours),)) + ours
    return head + AESGCM(key).encrypt(nonce, text + b"\x02", None)  # 2: the last record


def topic_of(collapse_id: str) -> str:
    """32 characters of RFC 8030's alphabet, the same for the same id."""
    return to_base64url(hashlib.sha256(collapse_id.encode()).digest())[:TOPIC_CHARS_MAX]


def public_key_of(key: ECKey) -> str:
    """The public key in the form of a browser's `applicationServerKey`."""
    fields = key.as_dict(private=False)
    return to_base64url(b"\x04" + _decoded(str(fields["x"]), 32) + _decoded(str(fields["y"]), 32))


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _decoded(text: str, size: int) -> bytes:
    raw = from_base64url(text)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes, not {size}")
    return raw
