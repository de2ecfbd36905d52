from __future__ import annotations

import msgspec
import pytest

from tidings.bounds import MEMBERS_BULK_MAX
from tidings.protocol.member_bodies import NewMembers


@pytest.mark.parametrize("user_ids", [[], ["{a}"], ["a"] * (MEMBERS_BULK_MAX + 1)])
def test_new_members_are_some_users_and_not_too_many(user_ids: list[str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"user_ids": user_ids}, NewMembers)
