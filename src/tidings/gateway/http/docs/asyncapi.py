"""/asyncapi.json: AsyncAPI 3.0 with one channel, the WebSocket, made from the frame structs.

The document has the view of the server, which receives the client's frames and sends its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from tidings import __version__
from tidings.errors import CLOSE_MEANING
from tidings.protocol.client_frames import ClientFrame
from tidings.protocol.server_frames import SERVER_FRAMES

Document = dict[str, Any]
Kinds = Sequence[type[msgspec.Struct]]

_REF = "#/components/schemas/{name}"


def asyncapi_of() -> Document:
    received: Kinds = get_args(ClientFrame)
    both = [*received, *SERVER_FRAMES]
    _, schemas = msgspec.json.schema_components(both, ref_template=_REF)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tidings",
            "version": __version__,
            "description": _closes(),
        },
        "channels": {
            "socket": {
                "address": "/v1/ws",
                "messages": {kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"} for kind in both},
            }
        },
        "operations": {"hear": _operation("receive", received), "say": _operation("send", SERVER_FRAMES)},
        "components": {"messages": {kind.__name__: _message(kind) for kind in both}, "schemas": schemas},
    }


def _operation(action: str, kinds: Kinds) -> Document:
    return {
        "action": action,
        "channel": {"$ref": "#/channels/socket"},
        "messages": [{"$ref": f"#/channels/socket/messages/{kind.__name__}"} for kind in kinds],
    }


def _message(kind: type[msgspec.Struct]) -> Document:
    tag = kind.__struct_config__.tag
    return {
        "name": str(tag),
        "contentType": "application/json",
        "payload": {"$ref": _REF.format(name=kind.__name__)},
    }


def _closes() -> str:
    return "Close codes: " + "; ".join(f"{code.value} {meaning}" for code, meaning in CLOSE_MEANING.items()) + "."
