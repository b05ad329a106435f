from __future__ import annotations

from router.registry import Report
from tests.unit.router.fakes import endpoint, registry


def test_replacing_a_pool_keeps_what_is_known_of_the_endpoints_that_stay() -> None:
    known = registry(["v:1"], ngram=["a:1", "b:1"])
    stays = endpoint(known, "b:1")
    stays.report = Report(ready=True, load=3)
    known.replace("ngram", ["b:1", "c:1"])
    assert [each.address for each in known.pool("ngram")] == ["b:1", "c:1"]
    assert known.pool("ngram")[0] is stays
    assert not endpoint(known, "c:1").available


def test_verify_replicas_and_drafts_are_told_apart() -> None:
    known = registry(["v:1"], ngram=["a:1"], model=["b:1"])
    assert [each.address for each in known.verify()] == ["v:1"]
    assert [each.address for each in known.drafts()] == ["a:1", "b:1"]
    assert known.pool("eagle") == []
