"""What push and pending deliveries ask of the tables and of a provider: three small ports beside those of ports.py.

The same rules hold: an adapter raises the four store errors and nothing else, reads see every write that was answered
before, and `tests/contracts/` has one suite per port. A provider never raises: what went wrong is its `Outcome`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tidings.model_push import Device, Notice, Outcome, Waiting


class Devices(Protocol):
    """devices: one row per user and device."""

    async def put_device(self, device: Device) -> None:
        """Put as it is. A token belongs to one device: whoever had it before loses it, of whichever user.

        Beyond DEVICES_PER_USER_MAX the one of this user that was seen longest ago goes.
        """
        ...

    async def devices(self, user_id: str) -> list[Device]:
        """By device_id."""
        ...

    async def devices_of(self, user_ids: Iterable[str]) -> dict[str, list[Device]]:
        """The devices of those who have any."""
        ...

    async def touch_devices(self, seen: Mapping[tuple[str, str], int]) -> None:
        """(user_id, device_id) -> last_seen_ms, which never goes back. No complaint without a row."""
        ...

    async def remove_device(self, user_id: str, *, device_id: str | None = None, token: str | None = None) -> int:
        """Those of the user that fit all that is named (nothing named: all of them); how many they were."""
        ...


class Pending(Protocol):
    """pending_deliveries: one row per user and conversation with something undelivered past the grace time."""

    async def put_waiting(self, rows: Sequence[Waiting]) -> None:
        """A new row, or a later end of the one there is: first_seq and since_ms stay, last_seq never goes back."""
        ...

    async def waiting(self, conversation_id: str, user_ids: Iterable[str]) -> dict[str, Waiting]:
        """Of these users in one conversation, as far as there is something."""
        ...

    async def waiting_of(self, user_id: str) -> list[Waiting]:
        """Everything that waits for a user, by conversation_id."""
        ...

    async def clear_waiting(self, marks: Sequence[tuple[str, str, int]]) -> None:
        """(conversation_id, user_id, delivered_seq): the row goes, or begins after it. No complaint without a row."""
        ...

    async def expire_waiting(self, now_ms: int) -> int:
        """Rows go whose time is over, or that wait for nobody: delivered by the status's word, or no longer a member.

        So a node that died between a receipt and its clearing leaves no row behind. How many went.
        """
        ...


class Push(Protocol):
    """One provider's way to a device."""

    async def send(self, notice: Notice) -> Outcome: ...

    async def close(self) -> None: ...
