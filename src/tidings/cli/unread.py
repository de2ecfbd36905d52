"""`tidings unread`: compute unread counts from the tables again, compare them with the keyspace, and repair."""

from __future__ import annotations

import argparse
from functools import partial

from tidings.cli.verb import Verb, checked, on_stores, print_report
from tidings.config.values import safe_user_id


def _unread(repair: bool, arguments: argparse.Namespace) -> int:
    user_id = None if arguments.user is None else checked("--user", safe_user_id, arguments.user)
    report = on_stores(arguments, lambda core: core.verify.run(user_id, repair=repair))
    print_report(report, arguments.json)
    return 0 if repair or not report.wrong else 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", help="this user only (default: every user)")


VERBS: dict[str, Verb] = {
    "unread verify": Verb("compare unread counts with the tables", partial(_unread, False), _arguments),
    "unread repair": Verb("compare unread counts with the tables and repair them", partial(_unread, True), _arguments),
}
