"""Plants in threads, files and search are each a mistake in a step that is there."""

from __future__ import annotations

import inspect

from tidings.messaging.files.downloads import Downloads
from tidings.messaging.search.indexer import Indexer
from tidings.messaging.threads.indexing import ThreadIndex


def test_the_steps_that_are_changed_are_there_and_are_called_as_before() -> None:
    assert list(inspect.signature(Downloads.readable).parameters) == ["self", "user_id", "conversation_id", "file_id"]
    assert list(inspect.signature(Indexer.catch_up).parameters) == ["self", "conversation_id"]
    assert hasattr(ThreadIndex, "_indexed") and hasattr(Downloads, "_value")
