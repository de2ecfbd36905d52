"""Checks of the blobs: put a small object, read it back and delete it, before the archive needs to.

Nothing stays behind. A folder that the archive has not made yet is not made.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidings.clock import Clock
from tidings.config.settings import Settings, blobs_url
from tidings.config.values import mask_url
from tidings.errors import StoreError
from tidings.stores.blobs.obstore import open_blobs
from tidings.stores.blobs.ports import Blobs
from tidings.stores.findings import Finding, ok, wrong

PROBE_FOLDER = "doctor"  # beside the folders of the archive


async def check_blobs(settings: Settings, clock: Clock) -> list[Finding]:
    url = blobs_url(settings)
    where = mask_url(url.partition("?")[0])
    if not _is_made(url):
        return [ok("blobs.reachable", f"{where} does not exist yet; the first archived segment makes it")]
    name = f"{PROBE_FOLDER}/{clock.random_id(8)}"
    try:
        took_s = await _round_trip(open_blobs(url, clock), name, clock)
    except (StoreError, ValueError) as error:
        fix = "check TIDINGS_BLOBS: the bucket must exist, and the credentials must permit put, get and delete there"
        return [wrong("blobs.reachable", f"{where}: {' '.join(str(error).split())}", fix)]
    if took_s is None:
        fix = "do not archive there: TIDINGS_BLOBS=another://place"
        return [wrong("blobs.reachable", f"{where} returns other bytes than those that were put", fix)]
    return [ok("blobs.reachable", f"{where}: put, read back and deleted in {1000 * took_s:.0f} ms")]


def _is_made(url: str) -> bool:
    """A folder need not exist yet; a bucket must."""
    return not url.startswith("file:") or Path(unquote(urlsplit(url).path)).is_dir()


async def _round_trip(blobs: Blobs, name: str, clock: Clock) -> float | None:
    """The time it took; None: other bytes came back."""
    began_s = clock.monotonic_s()
    data = name.encode() * 64
    await blobs.put(name, data)
    try:
        found = await blobs.get(name)
    finally:
        await blobs.delete(name)
    return clock.monotonic_s() - began_s if found == data else None
