"""Routes of profile pictures: upload one, take it away, and show it to everybody who has its path."""

from __future__ import annotations

from tidings.errors import Forbidden, NotFound
from tidings.gateway.auth import Authenticator
from tidings.gateway.http.routes import Reply, Request, Route, pay_create
from tidings.messaging.files.profile_pictures import PICTURES_PATH, ProfilePictures
from tidings.messaging.files.thumbnails import MIME
from tidings.messaging.limits.limiter import Limiter
from tidings.protocol.bodies import ProfileBody
from tidings.stores.tables.ports import Accounts

_PICTURE = "/v1/users/{user_id}/picture"
_HEADERS = (
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


class ProfilePictureRoutes:
    def __init__(self, pictures: ProfilePictures, accounts: Accounts, auth: Authenticator, limiter: Limiter) -> None:
        self._pictures = pictures
        self._accounts = accounts
        self._auth = auth
        self._limiter = limiter

    def routes(self) -> list[Route]:
        return [
            Route(
                "PUT",
                _PICTURE,
                self.put,
                "Upload a profile picture, as the bytes of an image: one's own, or any with a server key",
                "profile",
                is_streamed=True,
                answer=ProfileBody,
                errors=("not_found", "too_large"),
            ),
            Route(
                "DELETE",
                _PICTURE,
                self.remove,
                "Take the uploaded profile picture away",
                "profile",
                statuses=(204,),
                errors=("not_found",),
            ),
            Route(
                "GET",
                PICTURES_PATH + "{owner}/{name}",
                self.show,
                "A profile picture, by the path that the profile has",
                "open",
                errors=("not_found",),
            ),
        ]

    async def put(self, request: Request) -> Reply:
        user_id = _whose(request)
        await pay_create(self._limiter, request)
        await self._pictures.put(user_id, request.body)
        self._auth.forget_user(user_id)
        user = await self._accounts.user(user_id)
        assert user is not None
        return Reply(200, ProfileBody(user_id, user.name, user.avatar_url))

    async def remove(self, request: Request) -> Reply:
        user_id = _whose(request)
        await pay_create(self._limiter, request)
        await self._pictures.remove(user_id)
        self._auth.forget_user(user_id)
        return Reply(204)

    async def show(self, request: Request) -> Reply:
        data = await self._pictures.open(request.params[0], request.params[1])
        return Reply(200, data, MIME.encode(), _HEADERS)


def _whose(request: Request) -> str:
    """The user whose picture is meant. A user reaches only the own one: others do not exist."""
    user_id, role = request.user(), request.caller.role
    if role is None and request.caller.user_id != user_id:
        raise NotFound()
    if role not in (None, "admin"):
        raise Forbidden("this needs an admin key")
    return user_id
