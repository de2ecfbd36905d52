from __future__ import annotations

from tests.support.gateway.served import Gateway


async def test_a_search_is_paid_for_and_answers_hits_with_snippets(gateway: Gateway) -> None:
    path = "/v1/search?q=you&conversation_id=c1&sender_id=auth0%7C5&after=1&before=9&has=link&limit=5&cursor=x"
    status, _, body = await gateway.rest("GET", path)
    assert status == 200 and ("search", "alice") in gateway.limiter.asked
    [hit] = body["hits"]
    assert (hit["conversation_id"], hit["message"]["seq"], hit["snippet"]) == (
        "c1", 7, [["see ", False], ["you", True]],
    )  # fmt: skip
    assert (body["next_cursor"], body["complete"]) == ("next", False)
    [(user_id, question)] = gateway.search.asked
    assert (user_id, question.sender_id, question.has, question.limit) == ("alice", "auth0|5", "link", 5)
    for wrong in ("has=video", "limit=0", "after=x", "q=" + "a" * 201):
        assert (await gateway.rest("GET", "/v1/search?q=a&" + wrong))[0] in (400, 413), wrong
    assert (await gateway.rest("GET", "/v1/search?q=a&limit=101"))[0] == 200
    assert gateway.search.asked[-1][1].limit == 100  # as of every page
    gateway.limiter.refused.add("search")
    assert (await gateway.rest("GET", "/v1/search?q=a"))[0] == 429
