from __future__ import annotations

from typing import Any

import pytest

from tidings.errors import BadRequest, NotFound, Unauthorized
from tidings.gateway.auth import Caller
from tidings.gateway.http.routes import Reply, Request, Route, Router, Routes, route


async def nothing(request: Request) -> Reply:
    return Reply(204)


def plain_route(method: str, path: str) -> Route:
    return Route(method, path, nothing, "does nothing")


def request(*params: str, user_id: str | None = "alice") -> Request:
    return Request("GET", params, Caller(user_id, None, "alice"), None, None, None, [])


ROUTER = Router(
    [
        plain_route("GET", "/"),
        plain_route("GET", "/v1/inbox"),
        plain_route("GET", "/v1/c/{id}"),
        plain_route("PUT", "/v1/c/{id}"),
        plain_route("GET", "/v1/c/{id}/m/{seq}"),
        plain_route("GET", "/v1/c/special"),
    ]
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", ("/", ())),
        ("/v1/inbox", ("/v1/inbox", ())),
        ("/v1/c/x", ("/v1/c/{id}", ("x",))),
        ("/v1/c/special", ("/v1/c/special", ())),
        ("/v1/c/x/m/7", ("/v1/c/{id}/m/{seq}", ("x", "7"))),
        ("/v1/c", None),
        ("/v1/c/x/m", None),
        ("/v1/c/x/m/7/8", None),
        ("/v1/inbox/", None),
        ("/v1/%69nbox", None),
        ("/%761/inbox", None),
        ("/v1%2Finbox", None),
        ("/v1/c/%70eople%40x", ("/v1/c/{id}", ("people@x",))),
        ("/v1/c/a%2Fb", ("/v1/c/{id}", ("a/b",))),
        ("/v1/c/x/%6d/7", None),
        ("", None),
        ("*", None),
    ],
)
def test_a_path_leads_to_its_route(path: str, expected: Any) -> None:
    found = ROUTER.find(path)
    assert (found and (found[0]["GET"].path, found[1])) == expected


def test_a_path_has_a_route_per_method() -> None:
    found = ROUTER.find("/v1/c/x")
    assert found is not None and set(found[0]) == {"GET", "PUT"}


def test_the_same_route_twice_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        Router([plain_route("GET", "/a"), plain_route("GET", "/a")])


@pytest.mark.parametrize("bad", ["", "a{b", "a:b", "x" * 129, "a b", "a\n", "é"])
def test_an_id_in_a_path_is_checked(bad: str) -> None:
    assert request("good-1").id() == "good-1"
    with pytest.raises(BadRequest):
        request(bad).id()


@pytest.mark.parametrize("bad", ["", "-1", "1.0", "1e3", "٣", str(2**63), "9" * 400, "x", " 1", "+1", "1_0"])
def test_a_seq_in_a_path_is_a_plain_number(bad: str) -> None:
    assert request("c", "42").seq() == 42
    with pytest.raises(BadRequest):
        request("c", bad).seq()


def test_a_server_without_a_user_cannot_act_for_one() -> None:
    with pytest.raises(Unauthorized):
        _ = request(user_id=None).user_id


def test_a_route_knows_the_names_of_its_parameters() -> None:
    assert plain_route("GET", "/v1/c/{id}/m/{seq}").param_names == ["id", "seq"]


class Ships(Routes):
    @route("GET", "/ships", answer=None, errors=("not_found",))
    @route("GET", "/boats", "operator")
    async def all(self, request: Request) -> Reply:
        """List every ship.

        The order is by name."""
        return Reply(204)


def test_a_class_declares_its_routes_on_its_methods_and_the_docstring_is_the_summary() -> None:
    ships = Ships()
    first, second = ships.routes()
    assert (first.method, first.path, first.summary, first.errors) == (
        "GET",
        "/ships",
        "List every ship",
        ("not_found",),
    )
    assert (second.path, second.access, second.run) == ("/boats", "operator", ships.all)


def test_a_route_without_a_docstring_is_refused() -> None:
    with pytest.raises(AssertionError, match="GET /ships has no docstring"):

        @route("GET", "/ships")
        async def all(request: Request) -> Reply:
            return Reply(204)


def asked_by(role: str | None, user_id: str | None = None) -> Request:
    return Request("GET", ("bob",), Caller(user_id, role, "x"), None, None, None, [])


def test_a_user_is_the_subject_of_their_own_path_only() -> None:
    assert asked_by(None, "bob").subject() == "bob"
    with pytest.raises(NotFound):
        asked_by(None, "alice").subject()


def test_a_server_key_reaches_every_subject() -> None:
    assert asked_by("readonly").subject() == asked_by("admin").subject() == "bob"
