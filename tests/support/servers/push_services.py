"""The push services on loopback: real HTTP/2 servers that check what is sent as the real ones do, and refuse in their
words. Each keeps what it took (`told`), and can be made to answer otherwise (`refusals`, by token).
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import json
import re
import socket
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID
from hypercorn.asyncio import serve
from hypercorn.config import Config
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

TEAM_ID, KEY_ID, TOPIC, PROJECT = "TEAM123456", "KEY7654321", "com.example.tidings", "tidings-test"


@dataclass(frozen=True)
class Refusal:
    status: int
    body: Any = None  # an object becomes JSON
    headers: tuple[tuple[str, str], ...] = ()


# In the providers' own words.
APNS_UNREGISTERED = Refusal(410, {"reason": "Unregistered", "timestamp": 1454948015990})
APNS_BAD_TOKEN = Refusal(400, {"reason": "BadDeviceToken"})
APNS_TOO_MANY = Refusal(429, {"reason": "TooManyRequests"})
APNS_EXPIRED = Refusal(403, {"reason": "ExpiredProviderToken"})
APNS_INVALID = Refusal(403, {"reason": "InvalidProviderToken"})
APNS_OTHER_KEY = Refusal(403, {"reason": "UnrelatedKeyIdInToken"})
APNS_TOO_LARGE = Refusal(413, {"reason": "PayloadTooLarge"})
APNS_SHUTDOWN = Refusal(503, {"reason": "Shutdown"})


def _fcm(code: int, message: str, status: str, *details: dict[str, Any], retry_after: str = "") -> Refusal:
    error = {"error": {"code": code, "message": message, "status": status, "details": list(details)}}
    return Refusal(code, error, (("retry-after", retry_after),) if retry_after else ())


def _fcm_code(code: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}


FCM_UNREGISTERED = _fcm(404, "Requested entity was not found.", "NOT_FOUND", _fcm_code("UNREGISTERED"))
FCM_BAD_TOKEN = _fcm(
    400,
    "The registration token is not a valid FCM registration token",
    "INVALID_ARGUMENT",
    _fcm_code("INVALID_ARGUMENT"),
)
FCM_BAD_FIELD = _fcm(
    400,
    "Invalid value at 'message.data[0].value' (TYPE_STRING), 12",
    "INVALID_ARGUMENT",
    {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [
            {
                "field": "message.data[0].value",
                "description": "Invalid value at 'message.data[0].value' (TYPE_STRING), 12",
            }
        ],
    },
)
FCM_QUOTA_OF_DEVICE = _fcm(
    429,
    "Resource has been exhausted (e.g. check quota).",
    "RESOURCE_EXHAUSTED",
    _fcm_code("QUOTA_EXCEEDED"),
    retry_after="37",
)
FCM_QUOTA_OF_PROJECT = _fcm(
    429,
    "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' of service "
    "'fcm.googleapis.com' for consumer 'project_number:1'.",
    "RESOURCE_EXHAUSTED",
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {"quota_metric": "fcm.googleapis.com/send_requests", "service": "fcm.googleapis.com"},
    },
    retry_after="60",
)
FCM_UNAUTHENTICATED = _fcm(
    401,
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
    "UNAUTHENTICATED",
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "ACCESS_TOKEN_EXPIRED",
        "domain": "googleapis.com",
        "metadata": {"service": "fcm.googleapis.com"},
    },
)
FCM_NO_PERMISSION = _fcm(
    403,
    "Permission 'cloudmessaging.messages.create' denied on resource '//cloudresourcemanager.googleapis.com/projects/p'",
    "PERMISSION_DENIED",
    {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "IAM_PERMISSION_DENIED",
        "domain": "cloudresourcemanager.googleapis.com",
    },
)
FCM_OTHER_SENDER = _fcm(403, "SenderId mismatch", "PERMISSION_DENIED", _fcm_code("SENDER_ID_MISMATCH"))
FCM_UNAVAILABLE = _fcm(
    503, "The service is currently unavailable.", "UNAVAILABLE", _fcm_code("UNAVAILABLE"), retry_after="12"
)
OAUTH_BAD_SIGNATURE = Refusal(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})

WEBPUSH_GONE = Refusal(
    410,
    {
        "code": 410,
        "errno": 106,
        "error": "",
        "more_info": "http://autopush.readthedocs.io/en/latest/http.html#error-codes",
        "message": "Request did not validate No such subscription",
    },
)
WEBPUSH_EXPIRED = Refusal(410, "push subscription has unsubscribed or expired.\n")
WEBPUSH_NOT_FOUND = Refusal(404, {"code": 404, "errno": 102, "error": "Not Found", "message": "Invalid URL endpoint"})
WEBPUSH_TOO_MANY = Refusal(429, "Too many requests\n", (("retry-after", "20"),))
WEBPUSH_MISMATCH = Refusal(
    401,
    {
        "code": 401,
        "errno": 109,
        "error": "Unauthorized",
        "more_info": "http://autopush.readthedocs.io/en/latest/http.html#error-codes",
        "message": "VAPID public key mismatch",
    },
)
WEBPUSH_OTHER_KEY = Refusal(
    403,
    "the VAPID credentials in the authorization header do not correspond to the credentials used to create the "
    "subscriptions.\n",
)


@dataclass(frozen=True)
class Told:
    """One push that was taken."""

    token: str
    headers: dict[str, str]
    body: Any
    http_version: str

    @property
    def collapse_id(self) -> str:
        return self.headers.get("apns-collapse-id") or self.headers.get("topic") or self.body["data"]["collapse_id"]


@dataclass
class Standin:
    """What the three have in common."""

    told: list[Told] = field(default_factory=list)
    refusals: dict[str, list[Refusal]] = field(default_factory=lambda: defaultdict(list))  # by token, used up in order
    attempts: int = 0
    gate: asyncio.Event | None = None  # requests wait for it
    halts_at: int | None = None  # from so many pushes on, each is taken and its answer waits for `resumed`
    resumed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        body = b""
        while (message := await receive()).get("more_body", False):
            body += message["body"]
        body += message.get("body", b"")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if self.gate is not None:
            await self.gate.wait()
        refusal = self.answer(scope["path"], headers, body, scope["http_version"])
        if self.halts_at is not None and len(self.told) >= self.halts_at:
            await self.resumed.wait()
        await _reply(send, refusal)

    def answer(self, path: str, headers: dict[str, str], body: bytes, http_version: str) -> Refusal:
        raise NotImplementedError

    def take(self, told: Told, status: int = 200, body: Any = None) -> Refusal:
        self.attempts += 1
        if self.refusals[told.token]:
            return self.refusals[told.token].pop(0)
        self.told.append(told)
        return Refusal(status, body)


async def _live(receive: Any, send: Any) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _reply(send: Any, answer: Refusal) -> None:
    raw = b"" if answer.body is None else answer.body.encode() if isinstance(answer.body, str) else b""
    if isinstance(answer.body, dict):
        raw = json.dumps(answer.body).encode()
    headers = [(name.encode(), value.encode()) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": raw})


# --- Apple ----------------------------------------------------------------------------------------


@dataclass
class ApnsStandin(Standin):
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    expired: set[str] = field(default_factory=set)  # provider tokens that are too old by now
    passes: list[str] = field(default_factory=list)  # provider tokens seen, each once

    @property
    def pem(self) -> str:
        """The .p8 file."""
        return pem_of(self.key)

    def answer(self, path: str, headers: dict[str, str], body: bytes, http_version: str) -> Refusal:
        token = path.removeprefix("/3/device/")
        refusal = self._check(headers)
        if refusal is not None:
            self.attempts += 1
            return refusal
        if not re.fullmatch(r"[0-9a-fA-F]+", token):
            return APNS_BAD_TOKEN
        return self.take(Told(token, headers, json.loads(body), http_version))

    def _check(self, headers: dict[str, str]) -> Refusal | None:
        provider_token = headers.get("authorization", "").removeprefix("bearer ")
        try:
            found = jwt.decode(provider_token, ECKey.import_key(pem_of(self.key)), algorithms=["ES256"])
        except (JoseError, ValueError):
            return APNS_INVALID
        if found.header["kid"] != KEY_ID or found.claims["iss"] != TEAM_ID or not isinstance(found.claims["iat"], int):
            return APNS_INVALID
        if provider_token not in self.passes:
            self.passes.append(provider_token)
        if provider_token in self.expired:
            return APNS_EXPIRED
        assert headers["apns-topic"] == TOPIC and len(headers["apns-collapse-id"]) <= 64
        return None


# --- Google ---------------------------------------------------------------------------------------


@dataclass
class FcmStandin(Standin):
    url: str = ""
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    granted: list[str] = field(default_factory=list)
    expired: set[str] = field(default_factory=set)
    grant_refusals: list[Refusal] = field(default_factory=list)

    @property
    def credentials(self) -> str:
        """The service account's file."""
        return json.dumps(
            {
                "type": "service_account",
                "project_id": PROJECT,
                "private_key_id": "k1",
                "private_key": pem_of(self.key),
                "client_email": "push@tidings-test.iam.gserviceaccount.com",
                "client_id": "1",
                "token_uri": f"{self.url}/token",
            }
        )

    def answer(self, path: str, headers: dict[str, str], body: bytes, http_version: str) -> Refusal:
        if path == "/token":
            return self._grant(body)
        assert path == f"/v1/projects/{PROJECT}/messages:send", path
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if bearer not in self.granted or bearer in self.expired:
            self.attempts += 1
            return FCM_UNAUTHENTICATED
        message = json.loads(body)["message"]
        assert all(isinstance(value, str) for value in message["data"].values())
        return self.take(
            Told(message["token"], headers, message, http_version), 200, {"name": f"projects/{PROJECT}/messages/0:1"}
        )

    def _grant(self, body: bytes) -> Refusal:
        if self.grant_refusals:
            return self.grant_refusals.pop(0)
        form = parse_qs(body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        try:
            key = RSAKey.import_key(pem_of(self.key))
            claims = jwt.decode(form["assertion"][0], key, algorithms=["RS256"]).claims
        except (JoseError, ValueError):
            return OAUTH_BAD_SIGNATURE
        assert claims["aud"] == f"{self.url}/token" and claims["exp"] - claims["iat"] == 3600
        assert claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
        self.granted.append(f"ya29.{len(self.granted)}")
        return Refusal(200, {"access_token": self.granted[-1], "expires_in": 3599, "token_type": "Bearer"})


# --- browsers -------------------------------------------------------------------------------------


class Browser:
    """Holds the private half of a subscription, and so can read what is sent to it."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | None = None, auth: bytes = b"0123456789abcdef") -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._auth = auth
        self._point = point_of(self._key)
        self.p256dh = encoded(self._point)
        self.auth = encoded(auth)

    def read(self, content: bytes) -> bytes:
        """RFC 8291 from the other side."""
        salt, size, key_size = content[:16], int.from_bytes(content[16:20], "big"), content[20]
        sender, sealed = content[21 : 21 + key_size], content[21 + key_size :]
        assert len(sealed) <= size
        shared = self._key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
        secret = _hmac(_hmac(self._auth, shared), b"WebPush: info\0" + self._point + sender + b"\x01")
        seed = _hmac(salt, secret)
        key = _hmac(seed, b"Content-Encoding: aes128gcm\0\x01")[:16]
        nonce = _hmac(seed, b"Content-Encoding: nonce\0\x01")[:12]
        text = AESGCM(key).decrypt(nonce, sealed, None)
        assert text.endswith(b"\x02")
        return text[:-1]


@dataclass
class WebPushStandin(Standin):
    url: str = ""
    browsers: dict[str, Browser] = field(default_factory=dict)  # by the last part of the endpoint
    passes: list[str] = field(default_factory=list)

    def subscribe(self, name: str) -> tuple[str, Browser]:
        """The endpoint, and the browser behind it."""
        self.browsers[name] = Browser()
        return f"{self.url}/wpush/v2/{name}", self.browsers[name]

    def answer(self, path: str, headers: dict[str, str], body: bytes, http_version: str) -> Refusal:
        name = path.rpartition("/")[2]
        assert headers["content-encoding"] == "aes128gcm" and int(headers["ttl"]) > 0
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,32}", headers["topic"])
        if not self._is_vapid(headers["authorization"]):
            self.attempts += 1
            return WEBPUSH_OTHER_KEY
        if name not in self.browsers:
            self.attempts += 1
            return WEBPUSH_NOT_FOUND
        return self.take(Told(name, headers, json.loads(self.browsers[name].read(body)), http_version), 201)

    def _is_vapid(self, authorization: str) -> bool:
        found = re.fullmatch(r"vapid t=([\w.-]+), k=([\w-]+)", authorization)
        assert found is not None
        point = base64.urlsafe_b64decode(found[2] + "=")
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        try:
            claims = jwt.decode(found[1], ECKey.import_key(pem), algorithms=["ES256"]).claims
        except JoseError:
            return False
        if found[1] not in self.passes:
            self.passes.append(found[1])
        return bool(claims["aud"] == self.url and claims["sub"].startswith("mailto:"))


# --- keys, certificates, servers ------------------------------------------------------------------


def pem_of(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def point_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _hmac(key: bytes, text: bytes) -> bytes:
    mac = hmac.HMAC(key, hashes.SHA256())
    mac.update(text)
    return mac.finalize()


@dataclass(frozen=True)
class Certificate:
    """A throw-away one for loopback, and a client's trust in it."""

    file: Path
    key_file: Path

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


def make_certificate(folder: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=20_000))
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / "cert.pem", folder / "key.pem")
    files.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key_file.write_text(pem_of(key))
    return files


App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


@asynccontextmanager
async def served(app: App, certificate: Certificate | None = None) -> AsyncIterator[str]:
    """The app on a free loopback port, in HTTP/2, over TLS if there is a certificate; its URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)
    port = listener.getsockname()[1]
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # the server's from here on
    config.errorlog = None
    config.graceful_timeout = 0.2
    if certificate is not None:
        config.certfile, config.keyfile = str(certificate.file), str(certificate.key_file)
    stopped = asyncio.Event()
    serve_it: Any = serve  # it wants its own names for the types of ASGI
    serving = asyncio.create_task(serve_it(app, config, shutdown_trigger=stopped.wait), name="standin")
    try:
        yield f"{'https' if certificate else 'http'}://localhost:{port}"
    finally:
        stopped.set()
        with suppress(ssl.SSLError):  # a client said something more while its connection was cut
            await serving
