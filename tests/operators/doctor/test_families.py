"""Every key that Tidings makes is known by its family, whatever tenant it belongs to."""

from __future__ import annotations

import inspect

import pytest

from tidings.config.settings import Settings
from tidings.operators.doctor.families import FOREIGN, Sorter, families
from tidings.stores.keyspace.keys import Keys
from tidings.stores.keyspace.scripts.messaging import mentions_of
from tidings_proof.world.valkey import ValkeyProcess

KNOWN = families(Settings())


def made_by(keys: Keys) -> dict[str, str]:
    """Name of the builder -> a key that it builds; channels are no keys."""
    properties = [name for name, each in vars(Keys).items() if isinstance(each, property)]
    plain = {name: value for name, value in vars(keys).items() if not name.startswith("_") and name != "prefix"}
    methods = inspect.getmembers(keys, lambda each: inspect.ismethod(each) and not each.__name__.startswith("_"))
    built = {
        name: method(*(_sample(p) for p in inspect.signature(method).parameters.values())) for name, method in methods
    }
    built |= {name: getattr(keys, name) for name in properties}
    return {name: key for name, key in (plain | built).items() if name not in ("bus", "bus_of_all")}


def _sample(parameter: inspect.Parameter) -> object:
    return 7 if parameter.annotation == "int" else "ann"


@pytest.mark.parametrize("prefix", ["", "tenant."])
def test_every_key_of_ours_has_a_family(prefix: str) -> None:
    sorter = Sorter(KNOWN, prefix)
    strangers = [key for key in made_by(Keys(prefix)).values() if sorter.family_of(key) is FOREIGN]
    assert strangers == []


def test_no_two_families_take_the_same_key() -> None:
    found = [Sorter(KNOWN, "").family_of(key).name for key in made_by(Keys()).values()]
    assert sorted(found) == sorted(set(found))
    assert set(found) == {family.name for family in KNOWN}


def test_the_mentions_of_a_conversation_are_of_the_unread_family_and_a_filter_has_its_own() -> None:
    sorter, keys = Sorter(KNOWN, ""), Keys()
    assert sorter.family_of(mentions_of(keys.unread("ann", "c"))).name == "unread"
    for name in ("unread", "mentions", "muted", "archived", "pinned"):
        assert sorter.family_of(keys.filter("ann", name)).name == "filter"
    assert sorter.family_of(keys.inbox("ann")).name == "inbox"
    assert sorter.family_of(keys.mark("ann") + ":token").name == "mark", "marks that are built aside"


@pytest.mark.parametrize("key", ["cache:1", "inbox:ann", "other.inbox:{ann}", "unread:{ann}", "nodes2", ""])
def test_a_key_of_somebody_else_is_not_taken_for_ours(key: str) -> None:
    assert Sorter(KNOWN, "").family_of(key) is FOREIGN


def test_the_limits_follow_the_settings() -> None:
    by_name = {family.name: family for family in KNOWN}
    assert by_name["unread"].entries_max > Settings().unread.cap
    assert by_name["delivered"].entries_max == Settings().members_max + 1


def test_the_listpack_limit_is_the_servers_own(valkey: ValkeyProcess) -> None:
    from tidings.operators.doctor.families import LISTPACK_ENTRIES

    assert valkey.ask("CONFIG", "GET", "zset-max-listpack-entries")[1] == str(LISTPACK_ENTRIES)
