"""The limits of large conversations, and of read marks of many, each with its reason."""

from __future__ import annotations

BACK_SHARE = 0.8  # of members_large: at or below it a large conversation is small again. Few changes do not flap it
SETTLE_S = 600  # how old a line must be until no member can have a mark from before it: open work is finished long ago
CHILLED_TOGETHER = 200  # members whose marks become cold in one round trip
TALLY_CHUNK = 500  # entries of the log per round trip of a build
TALLIES_TOGETHER = 500  # counts that are asked for in one round trip: about 15 ms of the server
TALLY_TRIES_MAX = 20  # a build that is lost this often is refused as `unavailable`
COUNTS_KEPT = 50_000  # counts of members in large conversations that a node has in memory: about 20 MB
LISTS_KEPT = 500  # users whose large conversations a node has in memory, ordered and added up: 100 of them are 30 KB
COUNTS_PAUSE_S = 1.0  # between two pushes of the counts of a large conversation: all who are connected get one
COUNTS_COMPARED_MAX = 4  # reads of late counts that change each time: two seconds, then others have their turn
LATE_COUNTS_MAX = 500  # members who are counted apart at a time: a task each, of 5 KB; 8 of them rebuild, the rest wait
READS_PAUSE_S = 0.0025  # read marks of a conversation gather so long for each that came just now: the first never waits
READS_PAUSE_S_MAX = 0.25  # the longest of these pauses: the receipts of a read wait longer
