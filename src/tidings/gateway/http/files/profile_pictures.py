"""Routes of profile pictures: upload one, take it away, and show it to everybody who has its path."""

from __future__ import annotations

from tidings.gateway.auth import Authenticator
from tidings.gateway.http.routes import Reply, Request, Routes, pay_create, route
from tidings.messaging.files.profile_pictures import PICTURES_PATH, ProfilePictures
from tidings.messaging.files.thumbnails import MIME
from tidings.messaging.limits.limiter import Limiter
from tidings.protocol.people_bodies import ProfileBody
from tidings.stores.tables.ports import Accounts

_PICTURE = "/v1/users/{user_id}/picture"
_HEADERS = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


class ProfilePictureRoutes(Routes):
    def __init__(self, pictures: ProfilePictures, accounts: Accounts, auth: Authenticator, limiter: Limiter) -> None:
        self._pictures = pictures
        self._accounts = accounts
        self._auth = auth
        self._limiter = limiter

    @route("PUT", _PICTURE, "profile", is_streamed=True, answer=ProfileBody, errors=("not_found", "too_large"))
    async def put(self, request: Request) -> Reply:
        """Upload a profile picture, as the bytes of an image: one's own, or any with a server key."""
        user_id = request.subject()
        await pay_create(self._limiter, request)
        await self._pictures.put(user_id, request.body)
        self._auth.forget_user(user_id)
        user = await self._accounts.user(user_id)
        assert user is not None
        return Reply(200, ProfileBody(user_id, user.name, user.avatar_url))

    @route("DELETE", _PICTURE, "profile", statuses=(204,), errors=("not_found",))
    async def remove(self, request: Request) -> Reply:
        """Remove the uploaded profile picture."""
        user_id = request.subject()
        await pay_create(self._limiter, request)
        await self._pictures.remove(user_id)
        self._auth.forget_user(user_id)
        return Reply(204)

    @route("GET", PICTURES_PATH + "{owner}/{name}", "open", errors=("not_found",))
    async def show(self, request: Request) -> Reply:
        """Get a profile picture, by the path in the profile."""
        data = await self._pictures.open(request.params[0], request.params[1])
        return Reply(200, data, MIME.encode(), _HEADERS)
