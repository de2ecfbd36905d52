"""Routes of webhooks, for the team's backend. Any API key reads them, an admin changes them.

The secret of a webhook is in the answer that creates it, and in no other. Every change is an entry of the audit stream.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidings.bounds import URL_CHARS_MAX, WEBHOOK_CONVERSATIONS_MAX
from tidings.errors import BadRequest, Conflict, StoreUnavailable
from tidings.gateway.http.routes import Reply, Request, Routes, route
from tidings.messaging.integration.deliveries import LastAnswer
from tidings.messaging.integration.hooks import Hook, HookPatch, Hooks
from tidings.messaging.integration.lag import HookState, Lag, Paused
from tidings.model import EntryKind
from tidings.operators.audit.events import Audit
from tidings.protocol.bodies import RequestBody
from tidings.protocol.types import Id, Seq
from tidings.stores.outbound import fault_of

_ALL = "/v1/webhooks"
_ONE = _ALL + "/{webhook_id}"
_REFUSED = ("forbidden", "not_found")
Url = Annotated[str, Meta(max_length=URL_CHARS_MAX, description="An https:// address of the team.")]
Kinds = Annotated[list[EntryKind], Meta(min_length=1, description="Kinds of entries; without a list: all.")]
Ids = Annotated[
    list[Id], Meta(min_length=1, max_length=WEBHOOK_CONVERSATIONS_MAX, description="Without a list: all of them.")
]


class NewWebhook(RequestBody, frozen=True, rename={"from_": "from"}):
    url: Url
    kinds: Kinds | None = None
    conversation_ids: Ids | None = None
    from_: Literal["now", "start"] = "now"


class WebhookPatch(RequestBody, frozen=True):
    url: Url | None = None
    kinds: Kinds | None = None
    conversation_ids: Ids | None = None


class Replay(RequestBody, frozen=True):
    conversation_id: Id
    from_seq: Seq


class WebhookBody(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    webhook_id: str
    url: str
    from_: Literal["now", "start"]
    created_at: int
    kinds: list[EntryKind] | UnsetType = UNSET
    conversation_ids: list[str] | UnsetType = UNSET
    secret: str | UnsetType = UNSET  # once, in the answer that creates it


class WebhooksBody(msgspec.Struct, frozen=True):
    """The oldest first."""

    webhooks: list[WebhookBody]


class WebhookStateBody(msgspec.Struct, frozen=True):
    """`behind_by`: entries that are not delivered. `complete` false: there are more than were counted."""

    behind_by: int
    oldest_at: int | None
    last_answer: LastAnswer | None  # status 0: the endpoint did not answer
    paused: list[Paused] | UnsetType = UNSET
    complete: Literal[False] | UnsetType = UNSET


class WebhookRoutes(Routes):
    def __init__(self, hooks: Hooks, lag: Lag, audit: Audit, *, allows_private: bool) -> None:
        self._hooks = hooks
        self._lag = lag
        self._audit = audit
        self._allows_private = allows_private

    @route(
        "POST", _ALL, "server", body=NewWebhook, answer=WebhookBody, statuses=(201,), errors=("forbidden", "too_large")
    )
    async def create(self, request: Request) -> Reply:
        """Make a webhook: every entry from now on, or from the start, is posted to the URL."""
        asked: NewWebhook = request.body
        self._check(asked.url)
        hook = await self._hooks.create(
            asked.url,
            kinds=asked.kinds or (),
            conversation_ids=asked.conversation_ids or (),
            is_from_start=asked.from_ == "start",
        )
        self._acted(request, "webhook.created", hook.webhook_id)
        return Reply(201, body_of(hook, secret=hook.secret))

    @route("GET", _ALL, "operator", answer=WebhooksBody, errors=("forbidden",))
    async def all(self, request: Request) -> Reply:
        """List every webhook."""
        return Reply(200, WebhooksBody([body_of(hook) for hook in await self._hooks.all()]))

    @route("PATCH", _ONE, "server", body=WebhookPatch, answer=WebhookBody, errors=_REFUSED)
    async def change(self, request: Request) -> Reply:
        """Change a webhook."""
        asked: WebhookPatch = request.body
        if asked.url is not None:
            self._check(asked.url)
        patch = HookPatch(
            url=asked.url,
            kinds=None if asked.kinds is None else tuple(asked.kinds),
            conversation_ids=None if asked.conversation_ids is None else tuple(asked.conversation_ids),
        )
        hook = await self._hooks.change(request.id(), patch)
        self._acted(request, "webhook.changed", hook.webhook_id)
        return Reply(200, body_of(hook))

    @route("DELETE", _ONE, "server", statuses=(204,), errors=_REFUSED)
    async def remove(self, request: Request) -> Reply:
        """Remove a webhook."""
        await self._hooks.remove(request.id())
        self._acted(request, "webhook.removed", request.id())
        return Reply(204)

    @route("GET", _ONE + "/state", "operator", answer=WebhookStateBody, errors=_REFUSED)
    async def state(self, request: Request) -> Reply:
        """Show how far the endpoint is behind, and its last answer."""
        return Reply(200, state_of(await self._lag.state(request.id())))

    @route("POST", _ONE + "/replay", "server", body=Replay, statuses=(202,), errors=_REFUSED)
    async def replay(self, request: Request) -> Reply:
        """Deliver a conversation again from this entry on, and end its pause."""
        asked: Replay = request.body
        try:
            await self._lag.replay(request.id(), asked.conversation_id, asked.from_seq)
        except Conflict:
            raise StoreUnavailable("a delivery of this conversation is under way; try again") from None
        self._acted(request, "webhook.replayed", f"{request.id()} {asked.conversation_id} {asked.from_seq}")
        return Reply(202)

    def _check(self, url: str) -> None:
        fault = fault_of(url, allows_private=self._allows_private)
        if fault is not None:
            raise BadRequest(f"`url` cannot be used: {fault}")

    def _acted(self, request: Request, action: str, detail: str) -> None:
        self._audit.acted(action, request.caller.key_name or "", detail=detail)


def body_of(hook: Hook, *, secret: str | UnsetType = UNSET) -> WebhookBody:
    return WebhookBody(
        webhook_id=hook.webhook_id,
        url=hook.url,
        from_="start" if hook.from_ms is None else "now",
        created_at=hook.created_ms,
        kinds=list(hook.kinds) or UNSET,
        conversation_ids=list(hook.conversation_ids) or UNSET,
        secret=secret,
    )


def state_of(state: HookState) -> WebhookStateBody:
    return WebhookStateBody(
        behind_by=state.behind_by,
        oldest_at=state.oldest_ms,
        last_answer=state.last_answer,
        paused=list(state.paused) or UNSET,
        complete=UNSET if state.is_complete else False,
    )
