"""Pictures: the hosts from which pictures of people and conversations may come, beside those that were uploaded here.

Every reader of an inbox fetches the pictures in it, so the host of a picture learns who reads and when. Only hosts that
the operator lists may be named (`TIDINGS_PICTURE_HOSTS`), and the page's Content-Security-Policy lets a browser fetch
from no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import UnsetType

from tidings.errors import BadRequest
from tidings.messaging.files.profile_pictures import PICTURES_PATH

ANY_HOST = "*"


class Pictures:
    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = tuple(hosts)

    @property
    def sources(self) -> str:
        """The hosts as sources of a Content-Security-Policy."""
        if ANY_HOST in self._hosts:
            return "https:"
        return " ".join(f"https://{host}" for host in self._hosts)

    def check(self, url: str | UnsetType | None) -> None:
        """Raise BadRequest for a picture from a host that is not listed."""
        if isinstance(url, str) and not url.startswith(PICTURES_PATH) and not self._is_allowed(url):
            raise BadRequest("`avatar_url` must name a host of TIDINGS_PICTURE_HOSTS, over https")

    def _is_allowed(self, url: str) -> bool:
        if ANY_HOST in self._hosts:
            return True
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if parts.scheme != "https" or "@" in parts.netloc or "\\" in url:
            return False  # a browser may take another part of it for the host
        named = f"{host}:{port}" if port not in (None, 443) else host
        return any(_fits(named, one) for one in self._hosts)


def _fits(host: str, listed: str) -> bool:
    return host.endswith(listed[1:]) if listed.startswith("*.") else host == listed
