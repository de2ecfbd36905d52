"""The people: users with two devices each, their conversations, and what they do all day, from a seed.

They send, resend, read, mark, edit, delete, page through history, come and go from groups; one never reads anything, a
stranger knocks at every door, some members never connect. `rude.py` holds what they do to break the
protocol's order on purpose. The history records everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidings.clock import Dice
from tidings.config.values import SettingsError
from tidings_proof.judge.history import History
from tidings_proof.people import finding, more, rude, threads
from tidings_proof.people.device import Device
from tidings_proof.people.wire import rest

DEVICES = 2  # of each user
IDLE = 3  # members of the channel who never connect
RATE = 40.0  # messages a second, of all together
_SETUP_S = 30.0
Ports = Callable[[], Sequence[int]]


class Conversation(NamedTuple):
    id: str
    kind: str
    members: tuple[str, ...]  # the first one leads it
    is_churned: bool = False  # members come and go


class Act(NamedTuple):
    """Something people do, and how often in comparison."""

    weight: float
    do: Callable[[Workload, Device], Any]


class Workload:
    def __init__(
        self,
        ports: Ports,
        token: Callable[[str], str],
        history: History,
        dice: Dice,
        *,
        users: int,
        run_id: str = "",
    ) -> None:
        """`run_id`: on stores that outlive the run users, and by them message ids, are nobody else's."""
        prefix = f"torture-{run_id}-" if run_id else ""
        self.users = [f"{prefix}u{n}" for n in range(users)]
        self.idle = [f"{prefix}idle{n}" for n in range(IDLE)]
        self.stranger = f"{prefix}stranger"
        self.sleeper = self.users[-1]  # never reads: every message of the others stays unread
        self.conversations: dict[str, Conversation] = {}
        self.devices: list[Device] = []
        self.told: list[finding.Told] = []
        self.shared: list[finding.Shared] = []
        self.history = history
        self.dice = dice
        self.ports = ports
        self.token = token
        self.rate = RATE
        self.ways: Sequence[rude.Way] = rude.WAYS
        self.rudeness = 1.0  # how much more often than usual they are rude
        self.is_open = True  # False: nobody begins anything new
        self._tasks: list[asyncio.Task[None]] = []

    # --- its life -----------------------------------------------------------------------------------

    async def gather(self) -> None:
        """Direct ones between neighbours, groups of four, a channel of all, and a group whose members come and go."""
        users = self.users
        for one, other in zip(users, users[1:] + users[:1], strict=True):
            await self._create("direct", (one, other))
        for n in range(0, len(users) - 1, 4):
            await self._create("group", tuple(users[n : n + 4]))
        await self._create("channel", (*users, *self.idle))
        await self._create("group", tuple(users[: max(3, len(users) // 2)]), is_churned=True)
        await self._create("channel", tuple(users[: max(3, len(users) // 2)]), is_churned=True)
        for user_id in users:
            mine = [(c.id, user_id in c.members) for c in self.conversations.values() if self._may_be_in(user_id, c)]
            for n in range(DEVICES):
                device_dice = Dice(f"{self.dice.random()}")
                self.devices.append(
                    Device(user_id, f"d{n}", mine, self.ports, self.token(user_id), self.history, device_dice)
                )

    def _may_be_in(self, user_id: str, conversation: Conversation) -> bool:
        return user_id in conversation.members or conversation.is_churned

    async def _create(self, kind: str, members: tuple[str, ...], *, is_churned: bool = False) -> None:
        id_ = await self._created(members[0], {"kind": kind, "members": list(members[1:])})
        self.conversations[id_] = Conversation(id_, kind, members, is_churned)

    async def _created(self, user_id: str, body: Any) -> str:
        """Its id. Raises TimeoutError (nobody is there to make it), SettingsError (nobody who knows our users)."""
        answer: Any = None
        deadline_s = self.history.now_s() + _SETUP_S
        while self.history.now_s() < deadline_s:
            try:
                status, answer = await self.rest(user_id, "POST", "/v1/conversations", body)
            except OSError as error:
                status, answer = 0, str(error) or "no answer in time"
            if status in (200, 201):
                return str(answer["conversation_id"])
            if status == 401:
                raise SettingsError("the nodes refuse the users' tokens: is --auth-secret theirs?")
            await asyncio.sleep(0.1)
        raise TimeoutError(f"no conversation could be made within {_SETUP_S:.0f} s: {answer}")

    def start(self) -> None:
        for device in self.devices:
            self._tasks.append(asyncio.create_task(device.live(), name=f"{device.user_id}-{device.name}"))
            self._tasks.append(asyncio.create_task(self._act(device), name="acts"))
        self._tasks.append(asyncio.create_task(self._knock(), name="stranger"))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def check_alive(self) -> None:
        """A mistake of our own must not pass for silence."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise task.exception() or RuntimeError("a device ended")

    async def rest(self, user_id: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await rest(self.dice.choice(self.ports()), self.token(user_id), method, path, body)

    # --- what they do -------------------------------------------------------------------------------

    async def _act(self, device: Device) -> None:
        weights = [act.weight * (self.rudeness if act.do is _be_rude else 1.0) for act in ACTS]
        share = weights[0] / sum(weights)  # sends among all acts
        while True:
            await asyncio.sleep(device.dice.expovariate(self.rate / len(self.devices) / share))
            if self.is_open and device.is_live:
                (act,) = device.dice.choices(ACTS, weights)
                await act.do(self, device)

    async def _knock(self) -> None:
        """Somebody who is in no conversation tries every door."""
        ids = list(self.conversations)
        while True:
            await asyncio.sleep(0.4)
            id_ = self.dice.choice(ids)
            doors = _doors(id_, self.stranger, self.dice)
            if self.shared:
                file_id, _, id_, *_ = self.dice.choice(self.shared)
                doors.append(("GET", f"/v1/conversations/{id_}/files/{file_id}?link=1", None))
            for method, path, body in doors:
                await self._try_door(self.stranger, id_, method, path, body)

    async def _try_door(self, user_id: str, conversation_id: str, method: str, path: str, body: Any) -> None:
        op = self.history.invoke("knock", user_id=user_id, conversation_id=conversation_id, text=f"{method} {path}")
        facts = {"op": op, "user_id": user_id, "conversation_id": conversation_id}
        try:
            status, answer = await self.rest(user_id, method, path, body)
        except OSError:
            self.history.note("info", "knock", **facts, error="lost")
            return
        if isinstance(answer, str):
            self.history.event("strange", text=f"{method} {path} -> {status} {answer[:200]}")
        self.history.note("ok" if status < 300 else "fail", "knock", **facts, seq=status, text=f"{method} {path}")

    async def change_members(self) -> None:
        """The leader of a group adds or removes somebody. One who left alone would have to accept an invitation."""
        churned = [c for c in self.conversations.values() if c.is_churned]
        conversation = self.dice.choice(churned)
        leader = conversation.members[0]
        other = self.dice.choice([user_id for user_id in self.users if user_id != leader])
        path = f"/v1/conversations/{conversation.id}/members"
        if self.dice.random() < 0.5:
            await self._change("join", conversation.id, leader, other, "POST", path, {"user_ids": [other]})
        else:
            await self._change("leave", conversation.id, leader, other, "DELETE", f"{path}/{other}", None)

    async def _change(self, f: str, id_: str, doer: str, other: str, method: str, path: str, body: Any) -> None:
        facts: dict[str, Any] = {"user_id": doer, "conversation_id": id_, "value": other}
        await self.rest_op(f, doer, method, path, body, **facts)

    async def rest_op(self, f: str, by: str, method: str, path: str, body: Any, **facts: Any) -> Any:
        """A recorded request over REST; its answer where it was a good one."""
        op = self.history.invoke(f, **facts)
        try:
            status, answer = await self.rest(by, method, path, body)
        except OSError:
            self.history.note("info", f, op=op, error="lost", **facts)
            return None
        if status < 300:
            self.history.note("ok", f, op=op, seq=(answer or {}).get("seq", 0), **facts)
            return answer
        if not isinstance(answer, dict):
            self.history.event("strange", text=f"{method} {path} -> {status} {str(answer)[:200]}")
            answer = {"error": {"code": f"HTTP {status}", "temporary": True}}
        error = answer["error"]
        self.history.note("info" if error["temporary"] else "fail", f, op=op, error=error["code"], **facts)
        return None


def _doors(id_: str, stranger: str, dice: Dice) -> list[tuple[str, str, Any]]:
    one = f"/v1/conversations/{id_}"
    return [
        ("GET", f"{one}/messages?limit=5", None),
        ("GET", one, None),
        ("POST", f"{one}/messages", {"message_id": f"s-{dice.randrange(1 << 40)}", "text": "let me in"}),
        ("POST", f"{one}/read", {"up_to_seq": 1}),
        ("GET", f"{one}/messages/1/receipts", None),
        ("PATCH", f"{one}/messages/1", {"text": "mine now"}),
        ("POST", f"{one}/members", {"user_ids": [stranger]}),
    ]


# --- the acts ---------------------------------------------------------------------------------------


def _somewhere(device: Device) -> str | None:
    here = [id_ for id_, one in device.followed.items() if one.is_here]
    return device.dice.choice(here) if here else None


async def _send(people: Workload, device: Device) -> None:
    if (id_ := _somewhere(device)) is not None and device.waiting(id_) < 50:
        is_long = device.dice.random() < 0.02
        device.compose(id_, "a long one " * 300 if is_long else None)


async def _read(people: Workload, device: Device) -> None:
    id_ = _somewhere(device)
    if id_ is None or device.user_id == people.sleeper or not (have := device.followed[id_].have):
        return
    way = device.dice.random()
    if way < 0.4:
        await device.ask("read", "message.read", id_, up_to_seq=have)
    elif way < 0.6:  # a device that is behind: what others of its user have read stays read
        await device.ask("read", "message.read", id_, up_to_seq=device.dice.randint(1, have))
    elif way < 0.9:
        seqs = sorted({device.dice.randint(max(1, have - 8), have) for _ in range(3)})
        await device.ask("read", "message.read", id_, seqs=seqs)
    else:
        await device.ask("read", "message.read", id_, up_to_seq=have + 1_000)  # clamped to the head


async def _unread(people: Workload, device: Device) -> None:
    """Only every other user: the cursor of the rest may never go back."""
    id_ = _somewhere(device)
    if id_ is None or people.users.index(device.user_id) % 2 == 0 or device.user_id == people.sleeper:
        return
    await device.ask("unread", "message.unread", id_, from_seq=max(1, device.followed[id_].have - 3))


async def _page(people: Workload, device: Device) -> None:
    if (id_ := _somewhere(device)) is None:
        return
    have, way = device.followed[id_].have, device.dice.random()
    if way < 0.5:
        await device.page(id_, limit=20)
    elif way < 0.75:
        await device.page(id_, after_seq=device.dice.randint(0, have), limit=30)
    else:
        await device.page(id_, before_seq=device.dice.randint(1, have + 1), limit=30)


async def _inbox(people: Workload, device: Device) -> None:
    await device.ask("inbox", "inbox", limit=50)


async def _rewrite(people: Workload, device: Device) -> None:
    """An edit or a delete of something of its own."""
    if not device.acked:
        return
    id_, target, seq, _ = device.dice.choice(device.acked[-40:])
    path = f"/v1/conversations/{id_}/messages/{seq}"
    message_id = f"r-{device.user_id}-{device.name}-{device.dice.randrange(1 << 40)}"
    facts = {"user_id": device.user_id, "device": device.name, "conversation_id": id_, "message_id": message_id}
    if device.dice.random() < 0.6:
        text = f"{target} as {message_id} has it"
        body = {"text": text, "message_id": message_id}
        for _ in range(1 + (device.dice.random() < 0.2)):  # now and then again: the same edit
            await people.rest_op("edit", device.user_id, "PATCH", path, body, text=text, value=seq, **facts)
    else:
        path = f"{path}?message_id={message_id}"
        await people.rest_op("delete", device.user_id, "DELETE", path, None, value=seq, **facts)


async def _change(people: Workload, device: Device) -> None:
    await people.change_members()


async def _be_rude(people: Workload, device: Device) -> None:
    way = device.dice.choice(people.ways)
    await way(device, [one for one in people.devices if one.user_id == device.user_id and one is not device])


ACTS = (
    Act(60, _send),
    Act(8, _read),
    Act(3, _unread),
    Act(6, _page),
    Act(4, _inbox),
    Act(4, _rewrite),
    Act(2, _change),
    Act(6, _be_rude),
    Act(6, more.mention),
    Act(2, more.whisper),
    Act(2, more.burn),
    Act(8, more.react),
    Act(2, more.pin),
    Act(2, more.save),
    Act(2, more.draft),
    Act(2, more.flag),
    Act(4, more.look),
    Act(5, more.block),
    Act(6, threads.reply),
    Act(2, threads.follow),
    Act(3, threads.read_thread),
    Act(3, threads.list_threads),
    Act(2, finding.tell),
    Act(2, finding.seek),
    Act(1, finding.share),
)
