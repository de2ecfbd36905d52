"""The limits of the process that looks at pictures, each with its reason."""

from __future__ import annotations

THUMBNAILS_AT_ONCE = 2  # processes that look at pictures, on one node
THUMBNAIL_SOURCE_BYTES_MAX = 32 * 1024 * 1024  # of a picture that is looked at: a photo of a good camera
THUMBNAIL_PIXELS_MAX = 50_000_000  # of a picture; more is refused before anything is decoded
THUMBNAIL_MEMORY_BYTES = 1024 * 1024 * 1024  # of the process: the pixels above, four bytes each, and some copies
THUMBNAIL_CPU_S = 10  # of the process
THUMBNAIL_S = 20.0  # of the process, waiting included
THUMBNAIL_BYTES_MAX = 4 * 1024 * 1024  # of its answer
