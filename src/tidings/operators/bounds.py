"""The limits of the admin page, each with its reason."""

from __future__ import annotations

ADMIN_LOOK_S = 30.0  # one lookup of everything of a user or of the cold tier; past it the operator gets an error
ADMIN_CENSUS_S = 5.0  # doctor walks the keys of one server this long for the page; the command line takes its time
ADMIN_MINUTES_MAX = 1_440  # minutes of refusals that one request covers: a day
ADMIN_DAYS = 30  # days of activity that are shown
ADMIN_SCAN_ROWS = 100  # rows in one read of a list
ADMIN_SCAN_PAGES = 20  # reads of one request: a search that finds little gives way to others after 2,000 rows
TRAFFIC_SLOT_S = 300  # a chart of a day has 288 points
TRAFFIC_ADD_S = 60  # a node that dies takes so much of its counts with it
TRAFFIC_TTL_S = 26 * 3_600  # a day is read from the keys of 25 hours
ADMIN_ROWS_MAX = 50  # dead letters, audit entries and refused users that are shown
