"""The trials that read: inboxes, pages of history, pages out of the cold tier, and clients that come back."""

from __future__ import annotations

import json

from tidings_proof.bench.load.plan import Comeback, Comebacks, GeneratorFailed, Measured, Reader, Readers
from tidings_proof.bench.target.target import each
from tidings_proof.bench.trials.trials import TEXT, Found, Stage

PAGE = 20
INBOX_USERS = 4  # members of the same groups, who share the clients among them
EACH, SAID, HAD = 3, 6, 3  # of a client that comes back: conversations, messages in each, those it has


def inbox(stage: Stage) -> Found:
    """The newest 20 conversations with their counts, again and again."""
    users = stage.users("u", min(INBOX_USERS, stage.wanted.clients))
    count = stage.wanted.conversations
    stage.preparing(f"{count} conversations")
    each(lambda number: _spoken(stage, [stage.user("w"), *users], 1), range(count))
    is_http = stage.transport == "http"
    request = f"/v1/inbox?limit={PAGE}" if is_http else json.dumps({"type": "inbox", "limit": PAGE, "cursor": None})
    asking = [_reader(stage, users[number % len(users)], [request]) for number in range(stage.wanted.clients)]
    load = Readers(asking, "http" if is_http else "ws", items=min(PAGE, count))
    return Found({"opens": stage.measure("opens", load)}, {"conversations": count})


def _spoken(stage: Stage, user_ids: list[str], messages: int) -> str:
    """A new group in which the first has said something; its id."""
    id_ = stage.target.together("group", user_ids)
    for number in range(messages):
        stage.target.say(id_, user_ids[0], f"m{number}", TEXT)
    return id_


def history(stage: Stage) -> Found:
    """Pages of 20 from the newest to the oldest, each reader from another page on."""
    users, messages = stage.users("u", stage.wanted.clients), max(stage.wanted.messages, PAGE)
    stage.preparing(f"{messages} messages")
    id_ = stage.target.together("group", [stage.user("w"), *users])
    each(lambda number: stage.target.say(id_, stage.user("w"), f"m{number}", TEXT), range(messages))
    return Found({"pages": _scrolled(stage, "pages", id_, users, messages)}, {"messages": messages})


def _scrolled(stage: Stage, name: str, conversation_id: str, user_ids: list[str], head: int) -> Measured:
    places = range(head + 1, PAGE, -PAGE)
    pages = [_page(stage.transport, conversation_id, before) for before in places]
    firsts = [number * len(pages) // len(user_ids) for number in range(len(user_ids))]
    asking = [_reader(stage, one, pages[at:] + pages[:at]) for one, at in zip(user_ids, firsts, strict=True)]
    return stage.measure(name, Readers(asking, "http" if stage.transport == "http" else "ws", items=PAGE))


def _page(transport: str, conversation_id: str, before: int) -> str:
    if transport == "http":
        return f"/v1/conversations/{conversation_id}/messages?before_seq={before}&limit={PAGE}"
    frame = {"type": "history", "conversation_id": conversation_id, "before_seq": before, "limit": PAGE}
    return json.dumps(frame)


def _reader(stage: Stage, user_id: str, requests: list[str]) -> Reader:
    if stage.transport == "http":
        return Reader("", requests, stage.target.people.headers(user_id))
    return Reader(stage.target.token(user_id), requests)


def resume(stage: Stage) -> Found:
    """All come back at once, each behind in three conversations; done when the last one has what it missed."""
    clients = max(stage.wanted.clients, EACH)
    users = stage.users("u", clients)
    stage.preparing(f"{clients} conversations with {SAID} messages each")
    members = [[users[(at + ahead) % clients] for ahead in range(EACH)] for at in range(clients)]
    ids = each(lambda who: _spoken(stage, who, SAID), members)
    coming = [
        Comeback(
            stage.target.token(user_id),
            {ids[(number - back) % clients]: HAD for back in range(EACH)},
            EACH * (SAID - HAD),
        )
        for number, user_id in enumerate(users)
    ]
    one = stage.measure("comebacks", Comebacks(coming), has_warm_up=False)
    return Found({"comebacks": one}, {"caught_up_s": one.seconds, "entries": len(coming) * EACH * (SAID - HAD)})


# --- the cold tier --------------------------------------------------------------------------------


def archive(stage: Stage) -> Found:
    """Read pages of a conversation in the cold tier."""
    wanted, target = stage.wanted, stage.target
    if wanted.conversation_id is None or wanted.user_id is None:
        raise GeneratorFailed("`tidings bench archive URL` needs --conversation and --user: one with archived messages")
    path = f"/v1/conversations/{wanted.conversation_id}/messages?limit=1"
    head = int(target.call("GET", path, user_id=wanted.user_id)["head"])
    if head < PAGE:
        raise GeneratorFailed(f"{wanted.conversation_id} has {head} entries; a page has {PAGE}")
    before = _objects_read(stage)
    pages = _scrolled(stage, "cold", wanted.conversation_id, [wanted.user_id] * wanted.clients, head)
    return Found({"cold": pages}, {"objects_read": _objects_read(stage) - before})


def _objects_read(stage: Stage) -> float:
    return stage.target.metric("tidings_archive_reads_total", source="blobs")
