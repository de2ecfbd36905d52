"""`tidings user erase`: erase a person, and print the certificate."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tidings.cli.verb import BY, Verb, checked, on_stores, print_report
from tidings.config.values import safe_id

if TYPE_CHECKING:
    from tidings.messaging.lifecycle.erasing import Job
    from tidings.node.graph import Core


def _erase(arguments: argparse.Namespace) -> int:
    user_id = str(checked("--user", safe_id, arguments.user))

    async def work(core: Core) -> Job:
        job = await core.erasing.begin(user_id, arguments.texts)
        core.limiting.audit.acted("user.erase", BY, user_id=user_id, detail=job.job_id)
        return await core.erasing.run(job.job_id)

    print_report(on_stores(arguments, work), arguments.json)
    return 0


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", required=True, help="the id of the person")
    parser.add_argument(
        "--texts", choices=("remove", "keep"), default="remove", help="what happens to their messages (default remove)"
    )


VERBS: dict[str, Verb] = {
    "user erase": Verb("erase a person: texts, profile, devices, preferences", _erase, _arguments),
}
