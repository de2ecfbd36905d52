"""Devices of a simulated world: what they are pushed, what they were promised, and how a well-behaved client acts.

A device checks on the spot what holds for every connection: entries come once, in order, without a skip. The
device keeps what was acknowledged, and in which order it was sent, for `checks.py`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tidings.errors import Close, NotFound, Problem, StoreError
from tidings.gateway.live_gate import LiveGate
from tidings.messaging.send.draft import Draft
from tidings.model import Content, Entry, Sent
from tidings.pushes import ConversationAdded, ConversationRemoved, Event, MessageNew, Resumed
from tidings_proof.simulation.nodes import Gone, SimNode

if TYPE_CHECKING:
    from tidings_proof.simulation.world import World


class Said:
    """One message of a device, from its first attempt on."""

    def __init__(self, conversation_id: str, message_id: str, text: str, began: int) -> None:
        self.conversation_id = conversation_id
        self.message_id = message_id
        self.text = text
        self.began = began  # on the world's count of events
        self.acked: int | None = None
        self.seq_no: int | None = None
        self.is_under_way = False
        self.is_refused = False  # for good


class Connection:
    """One life of a device's socket: a connection, with the seam of a resume as the gateway has it."""

    def __init__(self, device: Device, node: SimNode, number: int) -> None:
        self.device_of = device
        self.node = node
        self.user_id = device.user_id
        self.connection_id = f"{device.name}-{number}"
        self.device: str | None = device.name
        self.opened_s = node.clock.monotonic_s()
        self.gate = LiveGate()
        self.is_open = True
        self.is_attached = True  # as far as the node knows
        self.last: dict[str, int] = {}  # conversation -> the highest entry that came
        self.own: dict[str, set[int]] = {}  # numbers this connection was told with `ok`
        self.incomplete: set[str] = set()  # the resume said: go on with history

    def push(self, event: Event) -> None:
        if self.is_open and self.gate.lets_through(event):
            self.device_of.take(self, event)

    def push_now(self, event: Event) -> None:
        if isinstance(event, Resumed):
            self.gate.resumed(event.conversation_id, event.to_seq)
        if self.is_open:
            self.device_of.take(self, event)

    def go_live(self) -> None:
        for event in self.gate.go_live():
            if self.is_open:
                self.device_of.take(self, event)

    def close(self, code: Close, reason: str = "") -> None:
        """By the node. Whether the client has gone already makes no difference to it."""
        self.cut()
        self.leave()

    def leave(self) -> None:
        """The node takes it down, once."""
        if self.is_attached and not self.node.is_dead:
            self.is_attached = False
            self.node.leave(self)

    def cut(self) -> None:
        """By the client, or with the node."""
        if not self.is_open:
            return
        self.is_open = False
        if self in self.node.connections:
            self.node.connections.remove(self)
        self.device_of.lost(self)

    async def drained(self) -> None:
        return None


class Device:
    def __init__(self, world: World, user_id: str, name: str) -> None:
        self.world = world
        self.user_id = user_id
        self.name = name
        self.connection: Connection | None = None
        self.got: dict[str, dict[int, Entry]] = {}
        self.said: list[Said] = []
        self.acked: dict[str, int] = {}  # the delivered mark of each conversation that a node called written
        self._connections = 0
        self._is_connecting = False
        self._resending: set[str] = set()

    # --- what comes ---------------------------------------------------------------------------------

    def take(self, connection: Connection, event: Event) -> None:
        if isinstance(event, MessageNew):
            self._take_entry(connection, event.entry)
        elif isinstance(event, Resumed):
            if event.reset:
                self.world.note(f"{self.name} was told to forget {event.conversation_id}")
            connection.last[event.conversation_id] = event.to_seq
            if not event.complete:
                connection.incomplete.add(event.conversation_id)
                self.world.spawn(self.catch_up(connection, event.conversation_id, event.to_seq))
        elif isinstance(event, ConversationRemoved):
            connection.last.pop(event.conversation_id, None)
        elif isinstance(event, ConversationAdded):
            connection.last.pop(event.item.row.conversation_id, None)

    def _take_entry(self, connection: Connection, entry: Entry) -> None:
        id_, seq_no = entry.conversation_id, entry.seq_no
        last = connection.last.get(id_)
        if entry.member is not None and entry.member.action == "added" and self.user_id in entry.member.user_ids:
            last = max(last, seq_no - 1) if last is not None else None  # what was before is history
        if last is not None:
            if seq_no <= last:
                self.world.note(f"{connection.connection_id} got {id_} {seq_no} after {last}")
            elif id_ not in connection.incomplete and not self._is_skip_known(connection, id_, last, seq_no):
                self.world.note(f"{connection.connection_id} got {id_} {seq_no} after {last}: a skip")
        connection.last[id_] = max(seq_no, last or 0)
        self.keep(entry)
        if self.world.plan.has_receipts:
            delivered = connection.node.core.receipts.delivered
            context = connection.node.party.context.copy()
            tell = partial(self._take_answer, id_, seq_no)
            self.world.loop.call_soon(delivered, self.user_id, {id_: seq_no}, tell, context=context)

    def _take_answer(self, conversation_id: str, seq_no: int, is_written: bool) -> None:
        if is_written:
            self.acked[conversation_id] = max(seq_no, self.acked.get(conversation_id, 0))

    def _is_skip_known(self, connection: Connection, conversation_id: str, last: int, seq_no: int) -> bool:
        """Whether it sent what is between, and was told with `ok`."""
        return set(range(last + 1, seq_no)) <= connection.own.get(conversation_id, set())

    def keep(self, entry: Entry) -> None:
        mine = self.got.setdefault(entry.conversation_id, {})
        before = mine.get(entry.seq_no)
        if before is not None and (before.kind, before.message_id) != (entry.kind, entry.message_id):
            self.world.note(f"{self.name} got two entries at {entry.conversation_id} {entry.seq_no}")
        mine[entry.seq_no] = entry

    async def catch_up(self, connection: Connection, conversation_id: str, after: int) -> None:
        """Do what a client does after an incomplete resume: read history until nothing more comes."""
        while connection.is_open:
            try:
                page = await connection.node.ask(
                    connection.node.core.history.page(self.user_id, conversation_id, after_seq=after, limit=100)
                )
            except NotFound:
                return
            except (Problem, StoreError):
                await asyncio.sleep(0.2)
                continue
            except Gone:
                return
            for entry in page.entries:
                self.keep(entry)
                after = max(after, entry.seq_no)
            if after >= page.head and not page.entries:
                return
            await asyncio.sleep(0.3)

    # --- coming and going ---------------------------------------------------------------------------

    def lost(self, connection: Connection) -> None:
        if self.connection is connection:
            self.connection = None
        for said in self.said:
            said.is_under_way = False

    def contiguous(self, conversation_id: str) -> int:
        mine, seq_no = self.got.get(conversation_id, {}), self.world.begins(self.user_id, conversation_id)
        while seq_no + 1 in mine:
            seq_no += 1
        return seq_no

    async def connect(self) -> None:
        """Try until it is connected, with the steps of gateway/connect.py: attach, claim, count, catch up, go live."""
        if self._is_connecting:
            return
        self._is_connecting = True
        try:
            while self.connection is None:
                node = self.world.some_node()
                if node is None or not await self._try(node):
                    await asyncio.sleep(0.1 + self.world.dice.random() * 0.2)
        finally:
            self._is_connecting = False
        for conversation_id in self.world.conversation_ids:
            self._resend(conversation_id)

    async def _try(self, node: SimNode) -> bool:
        self._connections += 1
        connection = Connection(self, node, self._connections)
        node.connections.append(connection)
        try:
            await node.ask(self._welcome(node, connection))
        except (Problem, StoreError, Gone):
            connection.close(Close.SERVER_ERROR)
            return False
        if not connection.is_open:
            return False
        self.connection = connection
        return True

    async def _welcome(self, node: SimNode, connection: Connection) -> None:
        core = node.core
        assert core.hub.attach(connection)
        await core.registry.claim(connection)
        await core.unread.totals(self.user_id)
        resume = {id_: self.contiguous(id_) for id_ in self.world.conversation_ids}
        await core.resume.catch_up(connection, resume, None)
        if connection.is_open:
            connection.go_live()

    def disconnect(self, *, is_clean: bool) -> None:
        """Not clean: the node learns of it later, as with a cable that was pulled."""
        connection = self.connection
        if connection is None:
            return
        connection.cut()
        if not connection.node.is_dead:
            delay_s = 0.0 if is_clean else self.world.dice.random() * 3
            self.world.loop.call_later(delay_s, connection.leave, context=connection.node.party.context.copy())

    # --- sending ------------------------------------------------------------------------------------

    def send(self, conversation_id: str) -> None:
        serial = len(self.said)
        said = Said(conversation_id, f"{self.name}-{serial}", f"text {self.name} {serial}", self.world.tick())
        self.said.append(said)
        if conversation_id not in self._resending and not self._waiting(conversation_id, but=said):
            self._submit(said)

    def _waiting(self, conversation_id: str, but: Said | None = None) -> list[Said]:
        """Return the requests that must go before: neither answered nor under way."""
        return [one for one in self.unanswered(conversation_id) if not one.is_under_way and one is not but]

    def unanswered(self, conversation_id: str) -> list[Said]:
        return [
            one
            for one in self.said
            if one.conversation_id == conversation_id and one.acked is None and not one.is_refused
        ]

    def _submit(self, said: Said) -> None:
        connection = self.connection
        if connection is None:
            return
        said.is_under_way = True
        connection.node.submit(
            Draft(
                sender_id=self.user_id,
                conversation_id=said.conversation_id,
                message_id=said.message_id,
                content=Content(said.text),
                origin=connection.connection_id,
                reply=lambda result: self._answered(connection, said, result),
            )
        )

    def _answered(self, connection: Connection, said: Said, result: Sent | Problem) -> None:
        if not connection.is_open or self.connection is not connection:
            return  # the answer was lost with the connection
        said.is_under_way = False
        if isinstance(result, Sent):
            self._acknowledged(connection, said, result.entry)
        elif not result.is_temporary:
            said.is_refused = True
        elif self.world.plan.is_kind:
            self.world.note(f"{said.message_id} was refused: {result!r}")
        self._resend_when_quiet(said.conversation_id)

    def _acknowledged(self, connection: Connection, said: Said, entry: Entry) -> None:
        seq_no = entry.seq_no
        if said.acked is not None and said.seq_no != seq_no:
            self.world.note(f"{said.message_id} was acknowledged as {said.seq_no}, then as {seq_no}")
        said.acked, said.seq_no = self.world.tick(), seq_no
        connection.own.setdefault(said.conversation_id, set()).add(seq_no)
        self.keep(entry)

    def _resend_when_quiet(self, conversation_id: str) -> None:
        waiting = self.unanswered(conversation_id)
        if waiting and not any(one.is_under_way for one in waiting) and conversation_id not in self._resending:
            self._resending.add(conversation_id)
            self.world.loop.in_world(0.1 + self.world.dice.random() * 0.3, self._resend, conversation_id)

    def _resend(self, conversation_id: str) -> None:
        """All that is not answered, in the order in which it was first sent; or the first of it, and the rest later."""
        self._resending.discard(conversation_id)
        waiting = self.unanswered(conversation_id)
        if (
            self.world.plan.resends_alone
            and self.world.dice.random() < 0.5
            and not any(one.is_under_way for one in waiting)
        ):
            del waiting[1:]
        if not any(one.is_under_way for one in waiting):
            for said in waiting:
                self._submit(said)
