"""The protocol as a whole, against a model: several users on a real node, over WebSocket and REST, in any order.

Hypothesis makes up what they do: send, send again, send other words under an old id, read, unread, edit, delete, come
and go. After each step what the node says must be what the model says: numbers, duplicates, counts, inbox order,
history; and each device has every entry once, in order, without a hole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.support.gateway.raw_websocket import CLOSE, TEXT, Wire
from tests.support.messaging.reference_model import Ledger, Room, Seat
from tests.support.nodes.attacked_node import CANARY, Attacked
from tidings.model import Content, Entry

who, which, ways = st.integers(0, 2), st.integers(0, 1), st.sampled_from(("ws", "rest"))


class Person:
    """One user with one device."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.wire: Wire | None = None
        self.got: dict[str, list[int]] = {}
        self.own: dict[str, set[int]] = {}  # numbers it was told with `ok`


class Protocol(RuleBasedStateMachine):
    attack: Attacked  # set by the test

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.people = [Person(self.attack.fresh(name)) for name in ("ann", "bob", "cay")]
        self.ids = [self.attack.group(*(one.user_id for one in self.people), messages=1) for _ in range(2)]
        self.model = Ledger(cap=10_000, is_delivered_seen=False)
        self.messages: dict[tuple[str, str, str], tuple[int, str]] = {}  # (conversation, sender, id) -> seq, text
        self.serial = 0
        for id_ in self.ids:
            self.model.rooms[id_] = Room("group", {one.user_id: Seat(0, 0) for one in self.people})
            self.run(self.take_over(id_))
        for person in self.people:
            self.run(self.connect(person))

    def teardown(self) -> None:
        for person in self.people:
            if person.wire is not None:
                person.wire.drop()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 60))

    # --- speaking -----------------------------------------------------------------------------------

    async def connect(self, person: Person) -> None:
        resume = {id_: max(person.got.get(id_, [0])) for id_ in self.ids}
        resume = {id_: max([seq, *person.own.get(id_, ())]) for id_, seq in resume.items()}
        person.wire = await self.attack.wire(person.user_id, device="phone", resume=resume)
        left = set(self.ids)
        while left:
            frame = await person.wire.hear()
            self.note(person, frame)
            if frame["type"] == "resumed":
                assert frame["complete"] and not frame["reset"], frame
                left.discard(frame["conversation_id"])

    def note(self, person: Person, frame: dict[str, Any]) -> None:
        if frame["type"] == "message.new":
            person.got.setdefault(frame["conversation_id"], []).append(frame["message"]["seq"])

    async def ask(self, person: Person, kind: str, **fields: Any) -> dict[str, Any]:
        assert person.wire is not None
        person.wire.ids += 1
        person.wire.say(id=person.wire.ids, type=kind, **fields)
        while True:
            frame = await person.wire.hear()
            if frame.get("id") == person.wire.ids:
                return frame
            self.note(person, frame)

    async def rest(self, person: Person, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await self.attack.rest(person.user_id, method, path, body)

    async def take_over(self, conversation_id: str) -> None:
        """What the log has that the model has not, as any member reads it."""
        head = self.model.rooms[conversation_id].head
        _, page = await self.rest(
            self.people[0], "GET", f"/v1/conversations/{conversation_id}/messages?after_seq={head}"
        )
        for one in reversed(page["messages"]):
            self.model.said(
                Entry(
                    conversation_id=conversation_id,
                    seq_no=one["seq"],
                    kind=one["kind"],
                    sent_ms=one["sent_at"],
                    sender_id=one["sender_id"],
                    content=None if one["text"] is None else Content(one["text"]),
                    target_seq=one["target_seq"],
                )
            )

    # --- what they do -------------------------------------------------------------------------------

    @rule(at=who, where=which, way=ways)
    def send(self, at: int, where: int, way: str) -> None:
        self.serial += 1
        self._send(self.people[at], self.ids[where], f"m{self.serial}", f"{CANARY} {self.serial}", way)

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), way=ways, is_other=st.booleans())
    def send_again(self, data: st.DataObject, way: str, is_other: bool) -> None:
        conversation_id, user_id, message_id = data.draw(st.sampled_from(sorted(self.messages)))
        person = next(one for one in self.people if one.user_id == user_id)
        _, text = self.messages[conversation_id, user_id, message_id]
        self._send(person, conversation_id, message_id, text + "!" * is_other, way)

    def _send(self, person: Person, conversation_id: str, message_id: str, text: str, way: str) -> None:
        known = self.messages.get((conversation_id, person.user_id, message_id))
        body = {"message_id": message_id, "text": text}
        if way == "rest":
            status, answer = self.run(self.rest(person, "POST", f"/v1/conversations/{conversation_id}/messages", body))
            expected = 201 if known is None else 200 if known[1] == text else 409
            assert status == expected, answer
            is_refused, seq = status == 409, answer.get("seq")
        else:
            answer = self.run(self.ask(person, "message.send", conversation_id=conversation_id, **body))
            is_refused, seq = answer["type"] == "error", answer.get("seq")
            assert not is_refused or answer["code"] == "conflict", answer
        assert is_refused == (known is not None and known[1] != text)
        if known is not None:
            assert is_refused or seq == known[0]
            return
        assert seq == self.model.rooms[conversation_id].head + 1
        self.messages[conversation_id, person.user_id, message_id] = (seq, text)
        if way == "ws":
            person.own.setdefault(conversation_id, set()).add(seq)
        self.run(self.take_over(conversation_id))

    @rule(at=who, where=which, way=ways, up_to=st.integers(0, 30))
    def read(self, at: int, where: int, way: str, up_to: int) -> None:
        self._mark(at, where, way, "read", up_to_seq=up_to)
        self.model.read_up_to(self.ids[where], self.people[at].user_id, up_to)

    @rule(at=who, where=which, way=ways, seqs=st.lists(st.integers(1, 30), min_size=1, max_size=4))
    def read_these(self, at: int, where: int, way: str, seqs: list[int]) -> None:
        self._mark(at, where, way, "read", seqs=seqs)
        self.model.read_these(self.ids[where], self.people[at].user_id, seqs)

    @rule(at=who, where=which, way=ways, from_seq=st.integers(1, 30))
    def unread(self, at: int, where: int, way: str, from_seq: int) -> None:
        self._mark(at, where, way, "unread", from_seq=from_seq)
        self.model.unread_from(self.ids[where], self.people[at].user_id, from_seq)

    def _mark(self, at: int, where: int, way: str, kind: str, **fields: Any) -> None:
        person, id_ = self.people[at], self.ids[where]
        if way == "rest":
            status, answer = self.run(self.rest(person, "POST", f"/v1/conversations/{id_}/{kind}", fields))
            assert status == 200, answer
        else:
            answer = self.run(self.ask(person, f"message.{kind}", conversation_id=id_, **fields))
            assert answer["type"] == "ok", answer

    @rule(at=who, where=which, seq=st.integers(1, 12), is_delete=st.booleans())
    def rewrite(self, at: int, where: int, seq: int, is_delete: bool) -> None:
        """Its sender may; the group's owner may delete; nobody else, and nothing that is not there."""
        person, id_ = self.people[at], self.ids[where]
        said = next((one for one in self.model.rooms[id_].messages if one.seq_no == seq), None)
        path = f"/v1/conversations/{id_}/messages/{seq}"
        method, body = ("DELETE", None) if is_delete else ("PATCH", {"text": f"{CANARY} edited"})
        status, answer = self.run(self.rest(person, method, path, body))
        is_allowed = said is not None and (said.sender_id == person.user_id or (is_delete and at == 0))
        if said is None or (is_allowed and said.is_deleted):
            assert status == 404, answer
        else:
            assert status == (200 if is_allowed else 403), answer
        self.run(self.take_over(id_))

    @rule(at=who)
    def come_back(self, at: int) -> None:
        person = self.people[at]
        assert person.wire is not None
        person.wire.raw(CLOSE, (1000).to_bytes(2, "big"))
        self.run(self._to_the_end(person))
        self.run(self.connect(person))

    async def _to_the_end(self, person: Person) -> None:
        assert person.wire is not None
        while True:
            opcode, payload = await person.wire.frame()
            if opcode == CLOSE:
                person.wire.drop()
                return
            if opcode == TEXT:
                self.note(person, json.loads(payload))

    # --- what must hold -----------------------------------------------------------------------------

    @invariant()
    def what_is_shown_is_what_the_model_says(self) -> None:
        for person in self.people:
            _, page = self.run(self.rest(person, "GET", "/v1/inbox"))
            shown = [
                (one["conversation_id"], one["unread_count"], one["read_seq"], one["first_unread_seq"], one["last_seq"])
                for one in page["conversations"]
            ]
            assert shown == [self._expected(id_, person.user_id) for id_ in self.model.shown(person.user_id)]
            totals = self.model.totals(person.user_id)
            assert (page["total_unread"], page["unread_conversations"]) == (
                totals.total_unread,
                totals.unread_conversations,
            )

    def _expected(self, id_: str, user_id: str) -> tuple[Any, ...]:
        state = self.model.state(id_, user_id)
        last = self.model.rooms[id_].messages[-1].seq_no
        return id_, state.unread_count, state.read_seq, state.first_unread_seq, last

    @invariant()
    def every_device_has_every_entry_once_and_in_order(self) -> None:
        for person in self.people:
            self.run(self._caught_up(person))
            for id_ in self.ids:
                got, own = person.got.get(id_, []), person.own.get(id_, set())
                assert got == sorted(set(got)), f"{person.user_id} got {got}"
                assert set(got) | own == set(range(1, self.model.rooms[id_].head + 1))

    async def _caught_up(self, person: Person) -> None:
        while any(
            set(range(1, self.model.rooms[id_].head + 1)) - set(person.got.get(id_, [])) - person.own.get(id_, set())
            for id_ in self.ids
        ):
            assert person.wire is not None
            self.note(person, await person.wire.hear())


def _play(attack: Attacked, examples: int, steps: int) -> None:
    class Played(Protocol):
        pass

    Played.attack = attack
    run_state_machine_as_test(
        Played,
        settings=settings(max_examples=examples, stateful_step_count=steps),
    )
    attack.check_unharmed()


def test_the_node_does_what_the_model_says(attack: Attacked) -> None:
    _play(attack, examples=6, steps=15)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_node_does_what_the_model_says_for_long(attack: Attacked) -> None:
    _play(attack, examples=150, steps=40)
