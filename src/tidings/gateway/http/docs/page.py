"""/docs: the API's description as one page, made from /openapi.json and /asyncapi.json once at the start.

The page is whole without its script, which only copies commands, and loads nothing from another host. All text is
escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from tidings.gateway.http.docs.examples import curl_of

Document = dict[str, Any]

_WHO = {
    "token": "a user's token",
    "api_key": "a server API key",
    "api_key acting_user": "a server API key with X-User-Id",
}
_END_OF_TEXT = r"(?![\s\S])"  # the end of a text in every dialect; readers know it as $
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tidings API</title>
<link rel="icon" type="image/svg+xml" href="/web/app/icon.svg">
<link rel="stylesheet" href="/assets/pages.css">
<script type="module" src="/assets/docs.js"></script>
</head>
<body class="docs">
"""
_OPENING = """<h1>Tidings API <small>{version}</small></h1>
<p>REST and WebSocket of this node. The same for programs: <a href="/openapi.json">/openapi.json</a> and
<a href="/asyncapi.json">/asyncapi.json</a>.</p>
<p>Users send <code>Authorization: Bearer</code> with their token; a team's own backend sends <code>X-Api-Key</code>,
and <code>X-User-Id</code> for whom it acts. An error is <code>{{"error": {{"code", "message", "temporary",
"retry_after_ms"}}}}</code> with the status of its code.</p>
<p>In the examples <code>$URL</code> is the address of this node, <code>$TOKEN</code> a user's token and
<code>$API_KEY</code> a server key. Ids stand for your own.</p>
"""
_SOCKET = """<p><code>GET /v1/ws</code>, one JSON object per text frame. A request carries an <code>id</code>,
which its answer echoes. The first frame is <code>connect</code>.</p>
"""


def docs_page(openapi: Document, asyncapi: Document) -> bytes:
    schemas: Document = {**asyncapi["components"]["schemas"], **openapi["components"]["schemas"]}
    groups = _groups(openapi)
    body = [
        _HEAD,
        _navigation([*groups, "WebSocket", "Schemas"]),
        "<main>",
        _OPENING.format(version=escape(openapi["info"]["version"])),
        *(_group(name, operations, schemas) for name, operations in groups.items()),
        _section("WebSocket", _SOCKET + _frames(asyncapi, schemas)),
        _section("Schemas", "".join(_schema(name, schemas) for name in _named(openapi, asyncapi, schemas))),
        "</main>\n</body>\n</html>\n",
    ]
    return "".join(body).encode()


def _groups(openapi: Document) -> dict[str, list[tuple[str, str, Document]]]:
    """Operations by their first tag, in the order of `tags`."""
    found: dict[str, list[tuple[str, str, Document]]] = {tag["name"]: [] for tag in openapi["tags"]}
    for path, methods in openapi["paths"].items():
        for method, facts in methods.items():
            found[facts["tags"][0]].append((path, method.upper(), facts))
    return {name: operations for name, operations in found.items() if operations}


def _navigation(names: Iterable[str]) -> str:
    links = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in names)
    return f'<nav aria-label="Parts"><ul>{links}</ul></nav>\n'


def _section(name: str, content: str) -> str:
    anchor = _anchor(name)
    return f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{escape(name)}</h2>\n{content}</section>\n'


def _group(name: str, operations: list[tuple[str, str, Document]], schemas: Document) -> str:
    return _section(name, "".join(_operation(*operation, schemas) for operation in operations))


def _operation(path: str, method: str, facts: Document, schemas: Document) -> str:
    summary = (
        f'<span class="method {method.lower()}">{method}</span> <code>{escape(path)}</code> '
        f'<span class="about">{escape(facts["summary"])}</span>'
    )
    parts = [f'<p class="who">{_who(facts["security"])}</p>']
    if facts.get("parameters"):
        parts.append("<h3>Parameters</h3>" + _parameters(facts["parameters"], schemas))
    if "requestBody" in facts:
        note = "" if facts["requestBody"]["required"] else " <small>optional</small>"
        parts.append(f"<h3>Body{note}</h3>" + _fields(_json_schema(facts["requestBody"]), schemas))
    parts += [_answers(facts["responses"], schemas), _errors(facts["responses"]), _example(path, method, facts)]
    return f'<details id="{escape(facts["operationId"])}"><summary>{summary}</summary>{"".join(parts)}</details>\n'


def _example(path: str, method: str, facts: Document) -> str:
    """The operation as a command, and what it may answer."""
    made = f'<h3>Example</h3><pre class="curl" tabindex="0">{escape(curl_of(path, method, facts))}</pre>'
    answers = [found for status, one in facts["responses"].items() if int(status) < 400 and (found := _answer_of(one))]
    return made + (f'<pre tabindex="0">{escape(answers[0])}</pre>' if answers else "")


def _answer_of(response: Document) -> str:
    content: Document = response.get("content", {}).get("application/json", {})
    return json.dumps(content["example"], ensure_ascii=False) if "example" in content else ""


def _who(security: list[Document]) -> str:
    if not security:
        return "For anyone."
    return "With " + " or ".join(_WHO[" ".join(scheme)] for scheme in security) + "."


def _parameters(parameters: list[Document], schemas: Document) -> str:
    rows = [
        (f"{one['name']}", one["in"] if one["required"] else f"{one['in']}, optional", one["schema"])
        for one in parameters
    ]
    return _table(rows, schemas)


def _answers(responses: Document, schemas: Document) -> str:
    """The statuses below 400. Statuses with the same body stand together."""
    bodies: dict[str, list[str]] = {}
    for status, response in responses.items():
        if int(status) < 400:
            schema = _json_schema(response)
            bodies.setdefault(_fields(schema, schemas) if schema else "", []).append(status)
    return "".join(f"<h3>Answer {', '.join(statuses)}</h3>{fields}" for fields, statuses in bodies.items())


def _errors(responses: Document) -> str:
    rows = "".join(
        f"<tr><th scope=row><code>{status}</code></th><td>{_prose(response['description'])}</td></tr>"
        for status, response in sorted(responses.items())
        if int(status) >= 400
    )
    return f'<h3>Errors</h3><table class="errors"><tbody>{rows}</tbody></table>' if rows else ""


def _about(schema: Document) -> str:
    """The description of a schema, or of the first of its kinds that has one."""
    descriptions = [one["description"] for one in (schema, *schema.get("anyOf", ())) if "description" in one]
    return descriptions[0] if descriptions else ""


def _json_schema(content: Document) -> Document | None:
    schema: Document | None = content.get("content", {}).get("application/json", {}).get("schema")
    return schema


def _fields(schema: Document | None, schemas: Document) -> str:
    """The fields of an object, one level deep. A deeper object is a link."""
    whole = schemas[schema["$ref"].rpartition("/")[2]] if schema and "$ref" in schema else schema or {}
    if "properties" not in whole:
        return f"<p>{_kind(schema or {})}</p>"
    required = whole.get("required", ())
    rows = [(name, "" if name in required else "optional", field) for name, field in whole["properties"].items()]
    return _table(rows, schemas)


def _table(rows: list[tuple[str, str, Document]], schemas: Document) -> str:
    lines = "".join(
        f"<tr><th scope=row><code>{escape(name)}</code></th><td>{escape(note)}</td><td>{_kind(schema)}</td>"
        f"<td>{_prose(_about(schema))}</td></tr>"
        for name, note, schema in rows
    )
    return f"<table><tbody>{lines}</tbody></table>"


def _kind(schema: Document) -> str:
    """A schema in one line."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#schema-{escape(name)}">{escape(name)}</a>'
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if "anyOf" in schema:
        return " | ".join(_kind(one) for one in schema["anyOf"])
    if "prefixItems" in schema:
        return f"[{', '.join(_kind(one) for one in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return f"object of {_kind(schema['additionalProperties'])}"
    return escape(str(schema.get("type", "any"))) + _range(schema)


def _range(schema: Document) -> str:
    if "pattern" in schema:
        return f" <code>{escape(schema['pattern'].replace(_END_OF_TEXT, '$'))}</code>"
    if "maxLength" in schema:
        return f" up to {schema['maxLength']:,} characters"
    return ""


def _frames(asyncapi: Document, schemas: Document) -> str:
    parts = []
    for title, operation in (("The client says", "hear"), ("The server says", "say")):
        names = [one["$ref"].rpartition("/")[2] for one in asyncapi["operations"][operation]["messages"]]
        frames = "".join(_frame(asyncapi["components"]["messages"][name], schemas) for name in names)
        parts.append(f"<h3>{title}</h3>{frames}")
    return "".join(parts)


def _frame(message: Document, schemas: Document) -> str:
    about = schemas[message["payload"]["$ref"].rpartition("/")[2]].get("description", "")
    summary = f'<code>{escape(message["name"])}</code> <span class="about">{_prose(about)}</span>'
    fields = _fields(message["payload"], schemas)
    return f"<details><summary>{summary}</summary>{fields}</details>\n"


def _named(openapi: Document, asyncapi: Document, schemas: Document) -> list[str]:
    """The schemas to list. Those of frames and queries are shown where they are used."""
    frames = {one["payload"]["$ref"].rpartition("/")[2] for one in asyncapi["components"]["messages"].values()}
    return [name for name in schemas if name not in frames and not name.endswith("Query")]


def _schema(name: str, schemas: Document) -> str:
    about = schemas[name].get("description", "")
    fields = _fields(schemas[name], schemas)
    return f'<h3 id="schema-{escape(name)}">{escape(name)}</h3><p>{_prose(about)}</p>{fields}\n'


def _prose(text: str) -> str:
    """Escaped text. Words in backticks become code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _anchor(name: str) -> str:
    return escape(name.lower().replace(" ", "-"))
