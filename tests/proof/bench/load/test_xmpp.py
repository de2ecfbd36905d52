"""XMPP as a dialect: what each stanza means to a load, however the stream is cut."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET

import pytest

from tidings_proof.bench.load.connections import Answer, Message, Tally
from tidings_proof.bench.load.dialects import NUMBER
from tidings_proof.bench.load.xmpp import Who, Xmpp, XmppLink, page

MECHANISMS = b"<stream:features><mechanisms><mechanism>PLAIN</mechanism></mechanisms></stream:features>"
OPENED = (MECHANISMS, b"<success xmlns='x'/>", b"<stream:features><bind/></stream:features>")


class Wire(asyncio.Transport):
    """Stands where a connection would: keeps what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.sent.append(data)


def opened(who: Who, heard: list[Answer], tally: Tally) -> tuple[XmppLink, Wire]:
    link, wire = XmppLink(who, tally, heard.append), Wire()
    link.connection_made(wire)
    for part in OPENED:
        link.data_received(part)
    return link, wire


async def test_a_listener_is_greeted_by_its_own_presence_and_hears_messages_in_pieces() -> None:
    heard = list[Answer]()
    link, wire = opened(Who("bob"), heard, Tally())
    assert b"PLAIN" in wire.sent[1] and b"<presence/>" in wire.sent[3] and not link.hello.done()
    link.data_received(b"<iq id='bind' type='result'><bind/></iq><presence from='bob@localhost/r'/>")
    assert link.hello.done()
    stanza = b"<message from='a@localhost/r' type='chat' id='run-0-12'><body>hi</body></message>"
    link.data_received(stanza[:30])
    link.data_received(stanza[30:] + stanza)
    assert heard == [Answer(type="message.new", message=Message("run-0-12", 12))] * 2


async def test_a_sender_asks_for_acknowledgements_and_gives_them() -> None:
    heard = list[Answer]()
    link, wire = opened(Who("alice", "room@conference.localhost", is_sender=True), heard, Tally())
    assert b"room@conference.localhost/alice" in wire.sent[3] and b"<enable " in wire.sent[3]
    link.data_received(b"<presence/><enabled xmlns='urn:xmpp:sm:3'/>")
    link.data_received(b"<a xmlns='urn:xmpp:sm:3' h='2'/><a xmlns='urn:xmpp:sm:3' h='2'/><message id='x-1'></message>")
    assert [answer.id for answer in heard] == [1, 2]
    link.data_received(b"<r xmlns='urn:xmpp:sm:3'/>")
    assert wire.sent[-1] == b"<a xmlns='urn:xmpp:sm:3' h='1'/>"


async def test_a_page_of_the_archive_is_counted() -> None:
    heard = list[Answer]()
    link, _ = opened(Who("bob"), heard, Tally())
    result = (
        b"<message><result id='7'><forwarded><message id='m1'><body>hi</body></message></forwarded></result></message>"
    )
    link.data_received(b"<presence/>" + result * 3 + b"<iq type='result'><fin xmlns='urn:xmpp:mam:2'></fin></iq>")
    assert [len(answer.messages or ()) for answer in heard] == [3]
    assert ET.fromstring(page(20, "7", "a@localhost")).tag == "iq"


@pytest.mark.parametrize("said", [b"<failure><not-authorized/></failure>", b"<iq type='error' id='page'><error/></iq>"])
async def test_a_refusal_fails_the_run(said: bytes) -> None:
    tally = Tally()
    link = XmppLink(Who("bob"), tally, lambda answer: None)
    link.connection_made(Wire())
    if said.startswith(b"<iq"):
        for part in OPENED:
            link.data_received(part)
        link.data_received(b"<presence/>")
    link.data_received(said)
    with pytest.raises(RuntimeError, match="the server refused"):
        await tally.failed


def test_a_message_asks_for_its_acknowledgement() -> None:
    packed = Xmpp().message("bob@localhost", "run-", "a < b").replace(NUMBER, b"7").decode()
    message, request = ET.fromstring(f"<all>{packed}</all>")
    assert (message.attrib["id"], message.attrib["type"], request.tag) == ("run-7", "chat", "{urn:xmpp:sm:3}r")
    assert b"groupchat" in Xmpp().message("room@conference.localhost", "run-", "hi")
