"""The blobs: a small object is put, read back and deleted, so that the archive will not be the first to try.

Nothing stays behind, and a folder that the archive has not made yet is not made. Called by examination.py.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidings.clock import Clock
from tidings.config import Settings
from tidings.config_values import mask_url
from tidings.doctor.findings import Finding, ok, wrong
from tidings.errors import StoreError
from tidings.opening import blobs_url
from tidings.stores.blobs_obstore import open_blobs
from tidings.stores.ports_archive import Blobs

PROBE_FOLDER = "doctor"  # beside the archive's own folders


async def check_blobs(settings: Settings, clock: Clock) -> list[Finding]:
    url = blobs_url(settings)
    where = mask_url(url.partition("?")[0])
    if not _is_made(url):
        return [ok("blobs.reachable", f"{where} is not there yet; the first archived segment makes it")]
    name = f"{PROBE_FOLDER}/{clock.random_id(8)}"
    try:
        took_s = await _round_trip(open_blobs(url, clock), name, clock)
    except (StoreError, ValueError) as error:
        fix = f"TIDINGS_BLOBS: may this machine's credentials put, get and delete {where}/*? does the bucket exist?"
        return [wrong("blobs.reachable", f"{where}: {' '.join(str(error).split())}", fix)]
    if took_s is None:
        fix = "do not archive there: TIDINGS_BLOBS=another://place"
        return [wrong("blobs.reachable", f"{where} gives back something else than what was put", fix)]
    return [ok("blobs.reachable", f"{where}: put, read back and deleted in {1000 * took_s:.0f} ms")]


def _is_made(url: str) -> bool:
    """A folder may not be there yet; a bucket must be."""
    return not url.startswith("file:") or Path(unquote(urlsplit(url).path)).is_dir()


async def _round_trip(blobs: Blobs, name: str, clock: Clock) -> float | None:
    """How long it took; None: it is not what was put."""
    began_s = clock.monotonic_s()
    data = name.encode() * 64
    await blobs.put(name, data)
    try:
        found = await blobs.get(name)
    finally:
        await blobs.delete(name)
    return clock.monotonic_s() - began_s if found == data else None
