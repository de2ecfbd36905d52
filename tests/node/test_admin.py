"""Admin: the parts behind the admin page, built on a whole node."""

from __future__ import annotations

from tidings.node.admin import admin_routes, build_inspection, build_samples, build_status
from tidings.node.graph import Core


def test_each_path_of_the_admin_page_has_one_route(core: Core) -> None:
    routes = admin_routes(core, build_samples(core, lambda: False), None)
    named = [(route.method, route.path) for route in routes]
    assert len(named) == len(set(named)) > 5


async def test_status_and_lookups_answer_on_an_empty_node(core: Core) -> None:
    assert build_inspection(core) is not None
    assert (await build_status(core).cold()).segments == 0
