"""Examples of the description: a request, an answer and a curl command for each operation, made from the schemas.

A value comes from its name, such as "bob" for `user_id`, else from its schema. REQUESTS and QUERIES hold examples of
operations whose required fields alone would explain too little. A test sends every example to a node.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

Document = dict[str, Any]

_AT_MS = 1_794_770_399_146
NAMED: Document = {
    "user_id": "bob",
    "user_ids": ["bob"],
    "members": ["bob"],
    "sender_id": "alice",
    "conversation_id": "c1",
    "conversation_ids": ["c1"],
    "message_id": "0198-a",
    "file_id": "f1a1e",
    "node_id": "n1",
    "key_id": "5d1f07ab",
    "seq": 42,
    "key": "👍",
    "text": "hello",
    "name": "trip",
    "cursor": None,
    "device": "phone",
    "url": "https://hooks.example.com/chat",
    "mime": "image/png",
    "avatar_url": "https://example.com/bob.png",
    "role": "member",
    "scope": "user",
    "subject": "bob",
    "class": "send",
    "folder": "app",
    "room": "parts",
    "limit": 20,
    "bytes": 1024,
}
_TIMES = ("_at", "_ms", "_ts")
_MESSAGE = "/v1/conversations/{conversation_id}/messages"
REQUESTS: dict[str, Document] = {
    "POST /v1/conversations": {"kind": "direct", "members": ["bob"]},
    "PATCH /v1/conversations/{conversation_id}": {"name": "trip"},
    f"POST {_MESSAGE}": {"message_id": "0198-a", "text": "hello"},
    f"PATCH {_MESSAGE}/{{seq}}": {"text": "hello, all"},
    "POST /v1/conversations/{conversation_id}/read": {"up_to_seq": 42},
    "PATCH /v1/inbox/{conversation_id}": {"muted": True},
    "PUT /v1/users/{user_id}": {"name": "Bob"},
    "PUT /v1/preferences": {"who_may_write": "anybody", "badge": "loud"},
    "POST /v1/devices": {"device": "phone", "provider": "fcm", "token": "the token of the device"},
    "POST /v1/conversations/{conversation_id}/invites": {"expires_s": 86_400, "uses": 1},
    "PUT /v1/scheduled/{message_id}": {"conversation_id": "c1", "text": "good morning", "send_at": _AT_MS},
    "PATCH /v1/webhooks/{webhook_id}": {"kinds": ["message"]},
}
QUERIES: dict[str, Document] = {
    "GET /v1/inbox": {"limit": 20},
    f"GET {_MESSAGE}": {"limit": 20},
    "GET /v1/search": {"q": "hello"},
    "GET /v1/users": {"query": "bo"},
    "GET /v1/directory": {"query": "trip"},
    "GET /v1/presence": {"conversation_id": "c1"},
    "GET /v1/unread/explain": {"conversation_id": "c1"},
    "DELETE /v1/devices": {"device": "phone"},
    "DELETE /v1/users/{user_id}": {"texts": "remove"},
}
_HEADERS = {
    "token": ["Authorization: Bearer $TOKEN"],
    "api_key": ["X-Api-Key: $API_KEY"],
}


def add_examples(paths: Document, schemas: Document) -> None:
    """Give every operation an example of its request and of its answer."""
    for path, methods in paths.items():
        for method, facts in methods.items():
            name = f"{method.upper()} {path}"
            for parameter in facts.get("parameters", ()):
                _add_parameter(parameter, QUERIES.get(name, {}), schemas)
            if "requestBody" in facts:
                content = facts["requestBody"]["content"]["application/json"]
                content["example"] = REQUESTS.get(name) or example_of(content["schema"], schemas)
            for status, response in facts["responses"].items():
                if int(status) < 400 and "content" in response:
                    content = response["content"]["application/json"]
                    content["example"] = example_of(content["schema"], schemas)


def _add_parameter(parameter: Document, query: Document, schemas: Document) -> None:
    name = parameter["name"]
    if parameter["in"] == "path":
        parameter["example"] = _value(name, parameter["schema"], schemas)
    elif name in query:
        parameter["example"] = query[name]


def example_of(schema: Document, schemas: Document) -> Any:
    """A value of the schema. An object has its required fields, or all of them where none is required."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return example_of(
            next((one for one in schema["anyOf"] if one.get("type") != "null"), schema["anyOf"][0]), schemas
        )
    if "properties" in schema:
        names = schema.get("required") or list(schema["properties"])
        return {name: _value(name, schema["properties"][name], schemas) for name in names}
    return _plain(schema, schemas)


def _value(name: str, schema: Document, schemas: Document) -> Any:
    if name.endswith(_TIMES) and _is_number(schema):
        return _AT_MS
    if name in NAMED and _fits(NAMED[name], schema):
        return NAMED[name]
    return example_of(schema, schemas)


def _is_number(schema: Document) -> bool:
    return any(one.get("type") == "integer" for one in (schema, *schema.get("anyOf", ())))


def _fits(value: Any, schema: Document) -> bool:
    """Whether a value by its name is of the kind that the schema wants."""
    kinds = {one.get("type") for one in (schema, *schema.get("anyOf", ()))}
    is_free = "enum" not in schema and not any("enum" in one for one in schema.get("anyOf", ()))
    if isinstance(value, list):
        return "array" in kinds and schema.get("items", {}).get("type") == "string"
    wanted = {str: "string", int: "integer", type(None): "null"}[type(value)]
    return is_free and wanted in kinds


def _plain(schema: Document, schemas: Document) -> Any:
    if "prefixItems" in schema:
        return [example_of(one, schemas) for one in schema["prefixItems"]]
    kind = schema.get("type")
    if kind == "array":
        return [example_of(schema["items"], schemas)] if schema.get("items") else []
    if kind == "object":
        return {}
    return {"integer": max(1, schema.get("minimum", 1)), "number": 1.5, "boolean": True, "null": None}.get(
        str(kind), "a1"
    )


# --- curl ---


def curl_of(path: str, method: str, facts: Document) -> str:
    """The operation as a command. The page says what `$URL`, `$TOKEN` and `$API_KEY` are."""
    parameters = facts.get("parameters", ())
    filled = path
    for one in parameters:
        if one["in"] == "path":
            filled = filled.replace(f"{{{one['name']}}}", quote(str(one["example"]), safe=""))
    query = {one["name"]: one["example"] for one in parameters if one["in"] == "query" and "example" in one}
    words = ["curl", f'"$URL{filled}{"?" + urlencode(query) if query else ""}"']
    if method not in ("GET", "POST") or (method == "POST" and "requestBody" not in facts):
        words.insert(1, f"-X {method}")
    words += [f'-H "{header}"' for header in _headers(facts["security"])]
    if "requestBody" in facts:
        text = json.dumps(facts["requestBody"]["content"]["application/json"]["example"], ensure_ascii=False)
        words.append("-d '" + text.replace("'", "'\\''") + "'")
    return " ".join(words)


def _headers(security: list[Document]) -> list[str]:
    return [header for name in security[0] for header in _HEADERS[name]] if security else []
