"""Every operation of /openapi.json, with requests that schemathesis makes up from it: good, bad and strange.

No answer is a 5xx, every answer is one that the document names, with a body of the form it names.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.nodes.attacked_node import Attacked

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@pytest.fixture(scope="module")
def schema(attack: Attacked) -> Any:
    found = schemathesis.openapi.from_url(f"http://127.0.0.1:{attack.port}/openapi.json")
    found.config.generation.update(with_security_parameters=False)  # a made-up key is refused before anything else
    return found


def _fuzz(attack: Attacked, schema: Any, examples: int) -> Counter[int]:
    """How often each status was answered. Every second request is about something that is there."""
    user_id, other_id = attack.fresh("schema"), attack.fresh("other")
    conversation_id = attack.group(user_id, other_id)
    there = {"conversation_id": conversation_id, "id": conversation_id, "user_id": other_id, "seq": 1}
    headers = {"Authorization": f"Bearer {attack.token(user_id)}"}
    statuses: Counter[int] = Counter()
    for found in schema.get_all_operations():

        @settings(
            max_examples=examples,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),  # the schema alone decides how much is filtered out
        )
        @given(case=found.ok().as_strategy(), is_there=st.booleans())
        def ask(case: Any, is_there: bool) -> None:
            if is_there:
                case.path_parameters = {name: there.get(name, value) for name, value in case.path_parameters.items()}
            response = case.call(headers=headers)
            statuses[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        ask()
    return statuses


def test_no_request_of_the_document_is_answered_otherwise(attack: Attacked, schema: Any) -> None:
    statuses = _fuzz(attack, schema, examples=4)
    assert statuses[200] > 10 and statuses[400] > 10 and statuses[404] > 10, statuses
    attack.check_unharmed()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_request_of_the_document_is_answered_otherwise_for_long(attack: Attacked, schema: Any) -> None:
    _fuzz(attack, schema, examples=100)
    attack.check_unharmed()
