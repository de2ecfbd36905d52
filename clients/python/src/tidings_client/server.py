"""The client of a backend: a server API key, and with it the account of any user.

`tidings key create` makes the key. The key can do everything that a user can, so it stays on the server. The team makes
the tokens of its users itself; `sign_token` makes them where the node uses an HS256 secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from tidings_client.account import Account
from tidings_client.clock import Clock
from tidings_client.connection.http import Http
from tidings_client.forms import ProfilePut, checked_credential, checked_id, path_of
from tidings_client.people import Profile, Revoked
from tidings_client.rest import Rest
from tidings_client.webhooks import NewWebhook, Replay, Webhook, Webhooks, WebhookState


class Server:
    """`async with Server(url, api_key) as server: await server.account("alice").send(...)`"""

    def __init__(self, url: str, api_key: str, *, clock: Clock | None = None) -> None:
        checked_credential(api_key, "api_key")

        async def headers() -> Mapping[str, str]:
            return {"X-Api-Key": api_key}

        self._clock = clock or Clock()
        self._rest = Rest(Http(url), headers, self._clock)

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._rest.close()

    def account(self, user_id: str) -> Account:
        """Act for this user. It makes no request: users need not be created first."""
        return Account(self._rest.acting(checked_id(user_id)), self._clock, user_id)

    async def user(self, user_id: str) -> Profile:
        return await self._rest.get(path_of("users", user_id), Profile)

    async def put_user(self, user_id: str, *, name: str | None = None, avatar_url: str | None = None) -> Profile:
        body = ProfilePut(name, avatar_url)
        return await self._rest.send("PUT", path_of("users", user_id), Profile, body, is_repeatable=True)

    async def revoke(self, user_id: str) -> Revoked:
        """Revoke every token of this user that was made before now, and close the open connections."""
        return await self._rest.send("POST", path_of("users", user_id, "revoke"), Revoked, is_repeatable=True)

    # --- webhooks ---

    async def add_webhook(
        self,
        url: str,
        *,
        kinds: Sequence[str] | None = None,
        conversation_ids: Sequence[str] | None = None,
        is_from_start: bool = False,
    ) -> Webhook:
        """Post every entry to this URL, in order: of these kinds and conversations, or all. Keep the secret."""
        begin = "start" if is_from_start else "now"
        body = NewWebhook(url, _listed(kinds), _listed(conversation_ids), begin)
        return await self._rest.send("POST", path_of("webhooks"), Webhook, body)

    async def webhooks(self) -> list[Webhook]:
        return (await self._rest.get(path_of("webhooks"), Webhooks)).webhooks

    async def remove_webhook(self, webhook_id: str) -> None:
        await self._rest.send("DELETE", path_of("webhooks", webhook_id), object)

    async def webhook_state(self, webhook_id: str) -> WebhookState:
        """Tell how far the endpoint is behind, and what it answered last."""
        return await self._rest.get(path_of("webhooks", webhook_id, "state"), WebhookState)

    async def replay_webhook(self, webhook_id: str, conversation_id: str, from_seq: int) -> None:
        """Deliver a conversation again from this seq on. It also ends a pause."""
        body = Replay(checked_id(conversation_id), from_seq)
        await self._rest.send("POST", path_of("webhooks", webhook_id, "replay"), object, body)


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)
