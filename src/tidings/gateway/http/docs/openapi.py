"""/openapi.json: OpenAPI 3.1, made from the route table, with the schemas that msgspec emits for the structs.

Nothing is written twice: every route that is served is described, with the structs that are decoded and encoded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tidings import __version__
from tidings.errors import TABLE
from tidings.gateway.http.docs.examples import add_examples
from tidings.gateway.http.routes import Route
from tidings.protocol.bodies import ErrorBody
from tidings.protocol.types import Id, ReactionKey, Seq, UserId

Document = dict[str, Any]

_REF = "#/components/schemas/{name}"
_MESSAGES = "/v1/conversations/{conversation_id}/"
_TAGS = (  # the first whose path begins so
    ("/v1/inbox", "Inbox"),
    ("/v1/unread", "Inbox"),
    (_MESSAGES + "messages", "Messages"),
    (_MESSAGES + "read", "Messages"),
    (_MESSAGES + "unread", "Messages"),
    ("/v1/conversations", "Conversations"),
    ("/v1/users", "People"),
    ("/v1/presence", "People"),
    ("/v1/blocks", "People"),
    ("/v1/preferences", "People"),
    ("/v1/devices", "Devices"),
    ("/v1/dev/", "Development"),
    ("/v1/", "Operation"),
    ("/admin", "Operation"),
    ("/", "Node"),
)
_CALLER_ERRORS = ("unauthorized", "rate_limited")
_STORE_ERRORS = ("internal", "unavailable")
_SECURITY: dict[str, list[Document]] = {
    "user": [{"token": []}, {"api_key": [], "acting_user": []}],
    "profile": [{"token": []}, {"api_key": []}],
    "operator": [{"api_key": []}],
    "moderator": [{"api_key": []}],
    "server": [{"api_key": []}],
    "open": [],
}


def openapi_of(routes: Sequence[Route]) -> Document:
    _, components = msgspec.json.schema_components(_types_of(routes), ref_template=_REF)
    paths: dict[str, Document] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    add_examples(paths, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidings", "version": __version__, "license": {"name": "Apache-2.0"}},
        "tags": [{"name": name} for name in dict.fromkeys(name for _, name in _TAGS)],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "api_key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
                "acting_user": {"type": "apiKey", "in": "header", "name": "X-User-Id"},
            },
        },
    }


def _types_of(routes: Sequence[Route]) -> list[Any]:
    found: dict[Any, None] = {ErrorBody: None}
    for route in routes:
        kinds = (route.query, route.body, route.answer, route.picked)
        found.update(dict.fromkeys(kind for kind in kinds if kind is not None))
    return list(found)


def _operation(route: Route, components: Document) -> Document:
    operation: Document = {
        "tags": [next(name for start, name in _TAGS if route.path.startswith(start))],
        "summary": route.summary,
        "operationId": _operation_id(route),
        "security": _SECURITY[route.access],
        "responses": _responses(route),
    }
    parameters = [*_path_parameters(route), *_query_parameters(route, components)]
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": not route.is_body_optional, "content": _json(route.body)}
    return operation


def _operation_id(route: Route) -> str:
    """`GET /v1/users/{user_id}` is get_users_user_id."""
    words = re.findall(r"[A-Za-z_]+", route.path.removeprefix("/v1").replace(".", "_"))
    return "_".join([route.method.lower(), *words]) if words else route.method.lower() + "_index"


def _path_parameters(route: Route) -> list[Document]:
    kinds: dict[str, Any] = {"seq": Seq, "name": str, "key": ReactionKey, "user_id": UserId}
    return [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(kinds.get(name, Id))}
        for name in route.param_names
    ]


def _query_parameters(route: Route, components: Document) -> list[Document]:
    if route.query is None:
        return []
    fields: Document = components[route.query.__name__]["properties"]
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()]


def _responses(route: Route) -> Document:
    responses: Document = {}
    for status in route.statuses:
        response: Document = {"description": "done" if status < 400 else "not ready"}
        if route.answer is not None:
            response["content"] = _json(route.answer, route.picked)
        responses[str(status)] = response
    for code in _error_codes(route):
        rule = TABLE[code]
        known = responses.setdefault(str(rule.status), {"description": "", "content": _json(ErrorBody)})
        known["description"] = f"{known['description']} `{code}`: {rule.meaning}".strip()
    return responses


def _error_codes(route: Route) -> list[str]:
    codes = list(route.errors)
    if route.query is not None or route.body is not None or route.param_names:
        codes.append("bad_request")
    if route.body is not None:
        codes.append("too_large")
    if route.access != "open":
        codes += [*_CALLER_ERRORS, *_STORE_ERRORS]
    return list(dict.fromkeys(codes))


def _json(kind: type[msgspec.Struct], other: type[msgspec.Struct] | None = None) -> Document:
    forms = [{"$ref": _REF.format(name=one.__name__)} for one in (kind, other) if one is not None]
    return {"application/json": {"schema": forms[0] if other is None else {"anyOf": forms}}}
