"""Bounds of the SQLite adapter, each with its unit and its reason."""

from __future__ import annotations

BUSY_S = 5.0  # several nodes may share one file; a commit takes milliseconds
READERS = 2  # reader threads; each hop carries every read that waits
WAL_PAGES = 4_000  # 16 MB of log before a checkpoint: pages written often are then copied once
QUIET_S = 0.002  # wait of bulk work on the loop for the commit that is under way: it takes a millisecond
TURN_S = 0.02  # wait for the write lock before a node says that it waits
QUEUE_S = 0.25  # wait for the write lock before a node says so again: another node may have taken the turn
GIVE_WAY_S = 0.004  # pause of a node that has committed while another waits, which tries the lock every millisecond
LOG_BYTES_MAX = 64 * 1024 * 1024  # the log is emptied past this size: a reader may keep the checkpoint from it for ever
LOG_RETRY_S = 0.25  # pause after an emptying that failed, doubled each time: readers of other nodes are soon done
LOG_RETRY_S_MAX = 5.0  # the longest of these pauses: a backup holds its snapshot for minutes
EMPTY_S = 0.25  # wait for the readers of one emptying; a page of history takes milliseconds
PAUSE_S = 1.0  # readers wait at most this long for another node that empties the log
ERASED_S = 60.0  # an erased text may stay in the log this long: emptying it for each text would cost too much
COMMIT_MAX = 500  # entries and records of one group of an import: other writers wait for some milliseconds
DELETE_CHUNK = 2_000  # entries of a deleted conversation removed in one commit: other writers wait for it
WIPE_PAGES = 256  # of one slice of a wipe: writers wait for two milliseconds
