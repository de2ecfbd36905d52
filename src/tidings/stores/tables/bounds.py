"""Bounds of a copy of the tables."""

COPY_ROWS = 1_000  # rows read and written together: a commit of some milliseconds
COPY_SAVE_ROWS = 10_000  # rows after which a copy notes its place: so many are written again after an interruption
COPY_DIFFERENT_SHOWN = 20  # conversations that differ and are named: enough to look at one
