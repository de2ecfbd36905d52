"""The trials that write: connects, messages between pairs, posts in a channel, and senders past their limit."""

from __future__ import annotations

from tidings_proof.bench.load.plan import Channel, Connects, Excess, GeneratorFailed, Pair, Pairs
from tidings_proof.bench.target.target import each
from tidings_proof.bench.trials.trials import TEXT, Found, Stage

USERS_PER_CLIENT = 10  # who take turns, so that nobody's own limit of connects is met


def connect(stage: Stage) -> Found:
    """Come, be greeted, go, and come again."""
    stage.preparing("tokens")
    tokens = each(stage.target.token, stage.users("u", stage.wanted.clients * USERS_PER_CLIENT))
    return Found({"connect": stage.measure("connect", Connects(tokens, stage.wanted.clients))})


def send(stage: Stage) -> Found:
    """Pairs in which one sends and the other receives; at a fixed rate if there is one."""
    wanted = stage.wanted
    load = Pairs(pairs_of(stage, max(1, wanted.clients // 2)), TEXT, stage.run_id, wanted.in_flight, wanted.rate)
    name = f"{wanted.in_flight} in flight" if wanted.rate is None else f"{wanted.rate:g}/s"
    return Found({name: stage.measure(name, load)})


def pairs_of(stage: Stage, count: int) -> list[Pair]:
    """The conversations are there before the clock runs."""
    stage.preparing(f"{count} conversations")
    target, names = stage.target, zip(stage.users("s", count), stage.users("r", count), strict=True)
    return each(
        lambda two: Pair(target.token(two[0]), target.token(two[1]), target.direct(two[0], two[1])),
        list(names),
    )


def fanout(stage: Stage) -> Found:
    """One sender, `clients` members who listen, and the rest of the members counted and not online."""
    target, wanted = stage.target, stage.wanted
    members = stage.users("m", max(wanted.members, wanted.clients + 1))
    stage.preparing(f"a channel of {len(members)}")
    conversation_id = target.together("channel", members)
    each(lambda user_id: target.call("GET", "/v1/unread", user_id=user_id), members)
    listeners = {target.url: each(target.token, members[1 : wanted.clients + 1])}
    load = Channel(conversation_id, target.token(members[0]), listeners, TEXT, stage.run_id, wanted.in_flight)
    one = stage.measure("posts", load)
    facts = {"members": len(members), "online": wanted.clients, "deliveries_per_s": one.per_s * wanted.clients}
    return Found({"posts": one}, facts | ({"cpu_us_per_member": one.cpu_us / len(members)} if one.cpu_s else {}))


def limiter(stage: Stage) -> Found:
    """Senders who never stop: how fast they are decided on, and how many messages were taken all the same."""
    wanted = stage.wanted
    senders = pairs_of(stage, wanted.clients)
    status = stage.target.call("GET", "/v1/rate_limits", user_id=stage.user("s0"))["rate_limits"].get("send")
    if status is None:
        raise GeneratorFailed("limits.send is off on this server: there is nothing to measure")
    load = Excess(senders, TEXT, stage.run_id, 1)
    one = stage.measure("decisions", load, has_warm_up=False)
    if not one.refused:
        raise GeneratorFailed(f"nobody was refused: limits.send ({status['limit']}) is above this load")
    facts = {"admitted": one.units - one.refused, "refused": one.refused}
    return Found({"decisions": one}, {**facts, "users": wanted.clients, "limit_of_each": status["limit"]})
