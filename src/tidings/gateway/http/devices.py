"""Routes of a user's devices: list them, register one for push, forget one.

A device registers with the name it connects with, so that a message it acknowledged over its socket is not pushed to
it. Addresses are checked before they are stored: a token becomes part of a path, an endpoint is a URL that we post to.
Tokens are never given out again. A token that another user had goes to the caller, because phones change hands, and the
former owner's devices get `device.removed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from tidings.bounds import PUSH_TOKEN_CHARS_MAX
from tidings.clock import Clock
from tidings.errors import BadRequest, NotFound
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.model import Provider
from tidings.protocol.bodies import RequestBody
from tidings.protocol.types import Id, shaped
from tidings.pushes import DeviceRemoved, Event
from tidings.stores.push.ports import is_endpoint, is_token
from tidings.stores.tables.ports import Devices
from tidings.stores.tables.values import Device

_PATH = "/v1/devices"
Token = Annotated[str, Meta(min_length=1, max_length=PUSH_TOKEN_CHARS_MAX)]
PublicKey = Annotated[str, shaped(r"^[A-Za-z0-9_-]{87}=?(?![\s\S])", "65 bytes in base64url")]
AuthSecret = Annotated[str, shaped(r"^[A-Za-z0-9_-]{22}(==)?(?![\s\S])", "16 bytes in base64url")]


class SubscriptionKeys(RequestBody, frozen=True):
    p256dh: PublicKey
    auth: AuthSecret


class Subscription(RequestBody, frozen=True, rename={"expires": "expirationTime"}):
    """The result of a browser's `PushSubscription.toJSON()`."""

    endpoint: Token
    keys: SubscriptionKeys
    expires: float | None = None  # a browser names it; a push service that has forgotten an endpoint says so itself


class NewDevice(RequestBody, frozen=True):
    """`token` for apns and fcm, `subscription` for webpush. `device` is the name it connects with."""

    device: Id
    provider: Provider
    token: Token | None = None
    subscription: Subscription | None = None


class DeviceQuery(msgspec.Struct, frozen=True):
    device: Id | None = None
    token: Token | None = None


class DeviceBody(msgspec.Struct, frozen=True):
    device: str
    provider: Provider
    registered_at: int
    last_seen: int


class DevicesBody(msgspec.Struct, frozen=True):
    """`vapid_public_key` is a browser's applicationServerKey; null without Web Push."""

    devices: list[DeviceBody]
    providers: list[str]
    vapid_public_key: str | None


class DeviceRoutes(Routes):
    """`providers` are those that are set up. An endpoint must be on one of `webpush_hosts`."""

    def __init__(
        self,
        devices: Devices,
        clock: Clock,
        push: Callable[[str, Event], None],
        *,
        providers: Collection[str],
        webpush_hosts: Sequence[str] = (),
        vapid_public_key: str | None = None,
    ) -> None:
        self._devices = devices
        self._clock = clock
        self._push = push
        self._providers = frozenset(providers)
        self._webpush_hosts = tuple(webpush_hosts)
        self._vapid_public_key = vapid_public_key

    @route("GET", _PATH, answer=DevicesBody)
    async def listed(self, request: Request) -> Reply:
        """List the caller's devices, and the providers that a device can use."""
        devices = await self._devices.of_user(request.user_id)
        return Reply(
            200, DevicesBody([_body(device) for device in devices], sorted(self._providers), self._vapid_public_key)
        )

    @route("POST", _PATH, body=NewDevice, answer=DeviceBody)
    async def register(self, request: Request) -> Reply:
        """Register a device for push, or give it another token."""
        asked: NewDevice = request.body
        if asked.provider not in self._providers:
            raise BadRequest(f"`provider`: {asked.provider} is not set up on this server")
        token, keys = self._address(asked)
        now_ms = self._clock.now_ms()
        device = Device(
            user_id=request.user_id,
            device_id=asked.device,
            provider=asked.provider,
            token=token,
            p256dh=keys.p256dh if keys else None,
            auth=keys.auth if keys else None,
            registered_ms=now_ms,
            last_seen_ms=now_ms,
        )
        former = await self._devices.put(device)
        if former is not None and former[0] != request.user_id:
            self._push(former[0], DeviceRemoved(former[1]))
        return Reply(200, _body(device))

    @route("DELETE", _PATH, query=DeviceQuery, statuses=(204,), errors=("not_found",))
    async def forget(self, request: Request) -> Reply:
        """Remove a device; it gets no push any more."""
        query: DeviceQuery = request.query
        if query.device is None and query.token is None:
            raise BadRequest("`device` or `token` must name the device")
        gone = await self._devices.remove(request.user_id, device_id=query.device, token=query.token)
        if not gone:
            raise NotFound("you have no such device")
        return Reply(204)

    def _address(self, asked: NewDevice) -> tuple[str, SubscriptionKeys | None]:
        if asked.provider == "webpush":
            if asked.subscription is None or asked.token is not None:
                raise BadRequest("webpush needs `subscription` and no `token`")
            if not is_endpoint(asked.subscription.endpoint, self._webpush_hosts):
                raise BadRequest("`subscription.endpoint` must be an https URL of a known push service")
            return asked.subscription.endpoint, asked.subscription.keys
        if asked.token is None or asked.subscription is not None:
            raise BadRequest(f"{asked.provider} needs `token` and no `subscription`")
        if not is_token(asked.provider, asked.token):
            raise BadRequest(f"`token` is not a token of {asked.provider}")
        return asked.token, None


def _body(device: Device) -> DeviceBody:
    return DeviceBody(device.device_id, device.provider, device.registered_ms, device.last_seen_ms)
