"""XMPP as a dialect: one TCP stream each, with stream management (XEP-0198) for senders and the archive (XEP-0313).

A token is JSON: the user, a room to join, and whether the user sends. A sender asks for an acknowledgement with each
message. The server answers with the number of stanzas it has handled, which is the number of the message.
"""

from __future__ import annotations

import asyncio
import base64
import re
from html import escape
from typing import cast
from urllib.parse import urlsplit

import msgspec

from tidings_proof.bench.load.connections import Answer, Message, Tally, greeted
from tidings_proof.bench.load.dialects import NUMBER, Link, OnFrame

HOST, ROOMS, PASSWORD = "localhost", "conference.localhost", "only-for-benchmarks"
_STREAM = (
    f"<?xml version='1.0'?><stream:stream to='{HOST}' version='1.0' xmlns='jabber:client' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()
_BIND = b"<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind></iq>"
_MANAGED = "xmlns='urn:xmpp:sm:3'"
_JOIN = "<presence to='{}/{}'><x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x></presence>"
_OPENING = re.compile(rb"<stream:features>.*?</stream:features>|<success[^>]*>|<failure.*", re.DOTALL)
_STANZA = re.compile(
    rb"<(?:message|iq|presence|r|a|enabled|failed)\b[^>]*/>|<(message|iq|presence|failed)\b[^>]*>.*?</\1>", re.DOTALL
)
_ID = re.compile(rb"^<message\b[^>]* id='([^']*)'")
_HANDLED = re.compile(rb" h='(\d+)'")


class Who(msgspec.Struct, frozen=True):
    """The content of a token."""

    user: str
    room: str = ""
    is_sender: bool = False

    @property
    def token(self) -> str:
        return msgspec.json.encode(self).decode()


class XmppLink(asyncio.Protocol):
    """One stream. It is greeted when its own presence, the room's subject or stream management is there."""

    def __init__(self, who: Who, tally: Tally, on_frame: OnFrame) -> None:
        self.hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.received_bytes = 0
        self._who = who
        self._tally = tally
        self._on_frame = on_frame
        self._buffer = b""
        self._is_bound = self._is_leaving = False
        self._stanzas = self._acknowledged = self._results = 0
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is one without saying so
        self._transport.write(_STREAM)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_leaving:
            self._tally.fail("the server closed a connection")

    def send(self, frame: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame)

    async def leave(self) -> None:
        self._is_leaving = True
        self.send(b"</stream:stream>")
        assert self._transport is not None
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self._buffer += data
        if not self._is_bound:
            self._open()
        at = 0
        for found in _STANZA.finditer(self._buffer) if self._is_bound else ():
            at = found.end()
            self._hear(found[0])
        self._buffer = self._buffer[at:]

    # --- signing in ---------------------------------------------------------------------------------

    def _open(self) -> None:
        found = _OPENING.search(self._buffer)
        if found is None:
            return
        self._buffer = self._buffer[found.end() :]
        if found[0].startswith(b"<failure"):
            self._tally.fail(f"the server refused: {found[0]!r}")
        elif found[0].startswith(b"<success"):
            self.send(_STREAM)
        elif b"<mechanisms" in found[0]:
            secret = base64.b64encode(f"\0{self._who.user}\0{PASSWORD}".encode()).decode()
            self.send(f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{secret}</auth>".encode())
        else:
            self._is_bound = True
            self.send(_BIND + self._arrival())

    def _arrival(self) -> bytes:
        """Presence, the room, and stream management last: from there on the server counts what we send."""
        words = ["<presence/>"]
        if self._who.room:
            words.append(_JOIN.format(self._who.room, self._who.user))
        if self._who.is_sender:
            words.append(f"<enable {_MANAGED}/>")
        return "".join(words).encode()

    def _greet(self, stanza: bytes) -> None:
        if self._who.is_sender:
            is_there = stanza.startswith(b"<enabled")
        elif self._who.room:
            is_there = b"<subject" in stanza
        else:
            is_there = stanza.startswith(b"<presence")
        if is_there:
            self._stanzas = 0
            self.hello.set_result(None)

    # --- what comes ---------------------------------------------------------------------------------

    def _hear(self, stanza: bytes) -> None:
        if not self.hello.done():
            self._greet(stanza)
        elif stanza.startswith(b"<a "):
            self._acknowledge(stanza)
        elif stanza.startswith(b"<r "):
            self.send(f"<a {_MANAGED} h='{self._stanzas}'/>".encode())
        else:
            self._stanzas += 1
            self._take(stanza)

    def _acknowledge(self, stanza: bytes) -> None:
        handled = _HANDLED.search(stanza)
        for number in range(self._acknowledged + 1, (int(handled[1]) if handled else 0) + 1):
            self._acknowledged = number
            self._on_frame(Answer(id=number))

    def _take(self, stanza: bytes) -> None:
        if b"type='error'" in stanza:
            self._tally.fail(f"the server refused: {stanza!r}")
        elif stanza.startswith(b"<message"):
            found = _ID.match(stanza)
            if b"<result " in stanza:
                self._results += 1
            elif found is not None and b"<body>" in stanza:
                self._on_frame(Answer(type="message.new", message=_message(found[1].decode())))
        elif b"<fin " in stanza:
            results, self._results = [msgspec.Raw(b"null")] * self._results, 0
            self._on_frame(Answer(id=1, messages=results))


def _message(message_id: str) -> Message:
    """XMPP numbers nothing. The number in the id shows whether all come, in their order."""
    number = message_id.rpartition("-")[2]
    return Message(message_id, int(number) if number.isdigit() else 0)


class Xmpp:
    async def connect(self, url: str, token: str, tally: Tally, on_frame: OnFrame) -> Link:
        where = urlsplit(url)
        link = XmppLink(msgspec.json.decode(token, type=Who), tally, on_frame)
        await asyncio.get_running_loop().create_connection(lambda: link, where.hostname or HOST, where.port or 5222)
        await greeted(link.hello, tally)
        return link

    def message(self, conversation_id: str, prefix: str, text: str) -> bytes:
        kind = "groupchat" if conversation_id.endswith(ROOMS) else "chat"
        words = f"to='{conversation_id}' type='{kind}' id='{prefix}{NUMBER.decode()}'"
        return f"<message {words}><body>{escape(text)}</body></message><r {_MANAGED}/>".encode()

    def request(self, request: str) -> bytes:
        return request.encode()


def page(most: int, before: str, peer: str = "") -> str:
    """A request for a page of the user's archive, the newest first. An empty `before` means the end."""
    field = "<field var='{}'><value>{}</value></field>"
    fields = field.format("FORM_TYPE", "urn:xmpp:mam:2") + (field.format("with", peer) if peer else "")
    form = f"<x xmlns='jabber:x:data' type='submit'>{fields}</x>"
    paging = f"<set xmlns='http://jabber.org/protocol/rsm'><max>{most}</max><before>{before}</before></set>"
    return f"<iq type='set' id='page'><query xmlns='urn:xmpp:mam:2'>{form}{paging}</query></iq>"
