"""Plans: the kinds of worlds that a simulation plays, each made from a seed."""

from __future__ import annotations

import random

from tidings.bounds import RENUMBER_MAX, Limit


class Plan:
    """Plan: the kind of world that a seed makes, mostly a small one, in which every step counts."""

    def __init__(self, dice: random.Random) -> None:
        self.is_small = dice.random() < 0.75
        self.nodes = dice.choice((1, 2) if self.is_small else (1, 2, 2, 3))
        self.people = ("ann", "bob", "bob") if self.is_small else ("ann", "bob", "cay", "bob")
        self.deeds = dice.choice((2, 3, 4) if self.is_small else (6, 10, 16))  # per device
        self.pause_s = dice.choice((0.002, 0.02, 0.3))  # between two deeds of a device
        self.mischief = dice.choice((0, 1, 2) if self.is_small else (0, 1, 2, 4))
        self.trouble = {store: dice.choice((0.0, 0.0, 0.03, 0.15)) for store in ("keyspace", "tables", "blobs")}
        self.slowness = dice.choice((0.0, 0.0, 0.1))
        self.send_limit = dice.choice((None, None, Limit(4, 1)))
        self.dies_at: int | None = None  # the step of the first node before which it is killed
        self.losses, self.loss_gap = 0, 0  # how often counters are lost, and after how many steps of nodes on average
        self.is_kind = False  # nothing else goes wrong: no send may be refused
        self.slow_stores: tuple[str, ...] = ("keyspace", "tables", "blobs")
        self.conversations = 3  # in which something happens, at most
        self.deed_weights = (50, 14, 3, 6, 5, 6, 6, 6)  # in the order of DEEDS
        self.bursts: tuple[int, ...] = (1, 1, 1, 3)  # messages sent at once
        self.oddities: tuple[str, ...] = ()  # of oddities.py
        self.has_receipts = False  # devices acknowledge what they get
        self.resends_alone = False  # devices may send the first of their messages again before the others
        self.members_large = 500  # above so many members a conversation is large

    @classmethod
    def quiet(cls, dies_at: int | None) -> Plan:
        """A small world in which one node dies at a chosen step, and nothing else goes wrong."""
        plan = cls(random.Random(0))
        plan.is_small, plan.nodes, plan.people, plan.deeds, plan.pause_s = True, 2, ("ann", "bob", "bob"), 4, 0.002
        plan.mischief, plan.trouble, plan.slowness = 0, dict.fromkeys(plan.trouble, 0.0), 0.0
        plan.send_limit, plan.dies_at = None, dies_at
        return plan

    @classmethod
    def losing(cls, seed: int) -> Plan:
        """Two nodes, one conversation in which much is sent, and a counter that is lost again and again.

        Nothing else goes wrong, but some trips to the tables are slow: a loss does no harm unless a commit takes longer
        than another node needs to seed, number and store.
        """
        dice = random.Random(f"losing {seed}")
        plan = cls.quiet(dies_at=None)
        plan.people, plan.conversations, plan.bursts = ("ann", "bob", "bob", "ann"), 1, (1, 2, 3)
        plan.deeds, plan.pause_s = 20, dice.choice((0.02, 0.05, 0.1))
        plan.deed_weights = dice.choice(((70, 6, 2, 8, 6, 4, 2, 2), (95, 1, 0, 2, 2, 0, 0, 0)))
        plan.slowness, plan.slow_stores = dice.choice((0.1, 0.2, 0.3)), ("tables",)
        plan.losses, plan.loss_gap = dice.choice((2, 4, 1_000)), dice.choice((10, 20, 40))
        plan.is_kind = plan.losses < RENUMBER_MAX
        return plan

    @classmethod
    def large(cls, seed: int) -> Plan:
        """A world of any kind, in which every group is large, or becomes large and small again as people come and go.

        Those who join are one more than the line, and those who leave bring it back."""
        dice = random.Random(f"large {seed}")
        plan = cls(dice)
        plan.members_large = dice.choice((1, 1, 2))
        return plan

    @classmethod
    def odd(cls, seed: int, kind: str) -> Plan:
        """Two or three nodes, one kind of oddity (oddities.py), and little else that goes wrong."""
        dice = random.Random(f"odd {seed} {kind}")
        plan = cls(dice)
        plan.nodes, plan.mischief = dice.choice((2, 2, 3)), dice.choice((0, 0, 1))
        plan.deeds, plan.pause_s = dice.choice((6, 12)), dice.choice((0.02, 0.3))
        plan.trouble = dict.fromkeys(plan.trouble, 0.0)
        plan.oddities, plan.has_receipts = (kind,), dice.random() < 0.5
        plan.resends_alone = kind == "tables_away"
        return plan
