"""Routes of conversations and their members."""

from __future__ import annotations

from tidings.gateway.bodies import (
    ConversationBody,
    ConversationPatch,
    NewConversation,
    NewMembers,
    ProfileBody,
    ProfilesBody,
    ProfilesQuery,
    RolePatch,
    conversation_of,
)
from tidings.gateway.routes import Reply, Request, Route, ids_of
from tidings.gateway.usecases import Directory, View

_ONE = "/v1/conversations/{conversation_id}"
_MEMBER = _ONE + "/members/{user_id}"
_REFUSED = ("not_found", "forbidden")


class ConversationRoutes:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def routes(self) -> list[Route]:
        return [*self._whole(), *self._people()]

    def _whole(self) -> list[Route]:
        return [
            Route(
                "POST",
                "/v1/conversations",
                self.create,
                "Create a conversation; the same direct pair twice is the same conversation",
                body=NewConversation,
                answer=ConversationBody,
                statuses=(201, 200),
                errors=("too_large",),
            ),
            Route("GET", _ONE, self.view, "A conversation and its members", answer=ConversationBody, errors=_REFUSED),
            Route(
                "PATCH",
                _ONE,
                self.rename,
                "Change name or avatar",
                body=ConversationPatch,
                answer=ConversationBody,
                errors=_REFUSED,
            ),
            Route("DELETE", _ONE, self.delete, "Delete a conversation for everyone", statuses=(204,), errors=_REFUSED),
        ]

    def _people(self) -> list[Route]:
        return [
            Route(
                "POST",
                _ONE + "/members",
                self.add,
                "Add members",
                body=NewMembers,
                answer=ConversationBody,
                errors=(*_REFUSED, "too_large"),
            ),
            Route(
                "PATCH",
                _MEMBER,
                self.set_role,
                "Change a member's role",
                body=RolePatch,
                answer=ConversationBody,
                errors=_REFUSED,
            ),
            Route(
                "GET",
                _ONE + "/profiles",
                self.profiles,
                "Names and pictures of members",
                query=ProfilesQuery,
                answer=ProfilesBody,
                errors=("not_found", "too_large"),
            ),
            Route("DELETE", _MEMBER, self.remove, "Remove a member, or leave", statuses=(204,), errors=_REFUSED),
        ]

    async def create(self, request: Request) -> Reply:
        asked: NewConversation = request.body
        view, is_new = await self._directory.create(
            request.user_id,
            kind=asked.kind,
            members=asked.members,
            name=asked.name,
            avatar_url=asked.avatar_url,
            history=asked.history,
        )
        return _reply(view, 201 if is_new else 200)

    async def view(self, request: Request) -> Reply:
        return _reply(await self._directory.view(request.user_id, request.id()))

    async def rename(self, request: Request) -> Reply:
        patch: ConversationPatch = request.body
        view = await self._directory.rename(request.user_id, request.id(), name=patch.name, avatar_url=patch.avatar_url)
        return _reply(view)

    async def delete(self, request: Request) -> Reply:
        await self._directory.delete(request.user_id, request.id())
        return Reply(204)

    async def add(self, request: Request) -> Reply:
        asked: NewMembers = request.body
        return _reply(await self._directory.add(request.user_id, request.id(), asked.user_ids))

    async def set_role(self, request: Request) -> Reply:
        asked: RolePatch = request.body
        view = await self._directory.set_role(request.user_id, request.id(), request.id(1), asked.role)
        return _reply(view)

    async def remove(self, request: Request) -> Reply:
        await self._directory.remove(request.user_id, request.id(), request.id(1))
        return Reply(204)

    async def profiles(self, request: Request) -> Reply:
        query: ProfilesQuery = request.query
        found = await self._directory.profiles(request.user_id, request.id(), ids_of(query.user_ids))
        return Reply(200, ProfilesBody([ProfileBody(one.user_id, one.name, one.avatar_url) for one in found]))


def _reply(view: View, status: int = 200) -> Reply:
    return Reply(status, conversation_of(view.head, view.members))
