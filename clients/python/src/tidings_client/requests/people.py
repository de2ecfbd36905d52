"""Requests about people: find them, profiles, blocks and the own preferences. They are part of `Account`."""

from __future__ import annotations

from tidings_client.forms import ProfilePut, path_of
from tidings_client.people import Block, Blocks, People, PersonFound, Preferences, Profile
from tidings_client.rest import Rest


class AboutPeople:
    _rest: Rest

    async def find_people(self, query: str = "", *, limit: int = 20) -> list[PersonFound]:
        """Find people by the beginning of a name or user id. Case and accents do not matter."""
        return (await self._rest.get(path_of("users"), People, query=query, limit=limit)).users

    async def profile(self, user_id: str) -> Profile:
        return await self._rest.get(path_of("users", user_id), Profile)

    async def set_profile(self, user_id: str, *, name: str | None = None, avatar_url: str | None = None) -> Profile:
        body = ProfilePut(name, avatar_url)
        return await self._rest.send("PUT", path_of("users", user_id), Profile, body, is_repeatable=True)

    async def set_picture(self, user_id: str, image: bytes) -> Profile:
        """Upload a profile picture: the bytes of an image, 5 MiB at most."""
        return await self._rest.send("PUT", path_of("users", user_id, "picture"), Profile, image, is_repeatable=True)

    async def block(self, user_id: str) -> None:
        """Block a person: no direct messages, and nothing of theirs is counted or notified."""
        await self._rest.send("PUT", path_of("blocks", user_id), object, is_repeatable=True)

    async def unblock(self, user_id: str) -> None:
        await self._rest.send("DELETE", path_of("blocks", user_id), object, is_repeatable=True)

    async def blocks(self) -> list[Block]:
        """Read the people whom the user has blocked."""
        return (await self._rest.get(path_of("blocks"), Blocks)).blocks

    async def preferences(self) -> Preferences:
        return await self._rest.get(path_of("preferences"), Preferences)

    async def set_preferences(self, preferences: Preferences) -> Preferences:
        """Set who may write to the user and who may add them: `anybody`, `shared` or `nobody`."""
        return await self._rest.send("PUT", path_of("preferences"), Preferences, preferences, is_repeatable=True)
