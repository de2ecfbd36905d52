"""Signed requests of the node itself to an object store: what the library of blobs cannot ask.

Each request may be made twice: it is tried again after a lost answer, and while the store is busy. Answers are XML.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from functools import cached_property
from xml.etree import ElementTree

import httpx2

from tidings import bounds
from tidings.clock import Clock
from tidings.errors import Missing, Unavailable

_BUSY = (408, 429, 500, 502, 503, 504)


class SignedRequests:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def ask(
        self, op: str, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> ElementTree.Element:
        """The answer, empty where there is none. Raises Missing, Unavailable."""
        cause = ""
        for tries in range(bounds.BLOBS_RETRIES + 1):
            if tries:
                await asyncio.sleep(self._clock.random_fraction() * 0.1 * 2**tries)
            try:
                async with httpx2.AsyncClient(verify=self._tls, timeout=bounds.BLOBS_REQUEST_S) as http:
                    answer = await http.request(method, url, headers=headers, content=body)
            except (httpx2.HTTPError, OSError) as error:
                cause = str(error) or type(error).__name__
                continue
            said = _xml(answer.content)
            code = next(texts(said, "Code"), f"status {answer.status_code}")
            if answer.is_success and name_of(said) != "Error":
                return said
            if answer.status_code == 404:
                raise Missing(code, store="blobs", op=op)
            cause = f"{code} {next(texts(said, 'Message'), '')}".strip()[:300]
            if answer.status_code not in _BUSY and not answer.is_success:
                break
        raise Unavailable(f"blobs: {cause}", store="blobs", op=op)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()


def _xml(content: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return ElementTree.Element("Nothing")


def name_of(element: ElementTree.Element) -> str:
    """The name without its namespace."""
    return element.tag.rpartition("}")[2]


def named(root: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """All elements of this name, in order."""
    return (element for element in root.iter() if name_of(element) == name)


def texts(root: ElementTree.Element, name: str) -> Iterator[str]:
    return (element.text or "" for element in named(root, name))
