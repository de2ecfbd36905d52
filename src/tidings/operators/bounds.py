"""The limits of the admin page, each with its reason."""

from __future__ import annotations

ADMIN_LOOK_S = 30.0  # one lookup of everything of a user or of the cold tier; past it the operator gets an error
ADMIN_CENSUS_S = 5.0  # doctor walks the keys of one server this long for the page; the command line takes its time
ADMIN_MINUTES_MAX = 1_440  # minutes of refusals that one request covers: a day
ADMIN_DAYS = 30  # days of activity that are shown
ADMIN_ROWS_MAX = 50  # dead letters, audit entries and refused users that are shown
