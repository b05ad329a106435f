"""What a store of answers keeps, of whom, and how much of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from draft_service.sources.history import History

additions = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), max_size=60)


@given(additions, st.integers(2, 40), st.integers(2, 40), st.integers(1, 3))
def test_it_never_holds_more_than_its_bounds(
    added: list[tuple[str, int]], tokens: int, tenant_tokens: int, tenants: int
) -> None:
    history = History(tokens, tenant_tokens, tenants)
    for tenant, length in added:
        history.add(tenant, [7] * length)
        assert history.num_tokens <= tokens
        assert history.num_tenants <= tenants
        assert all(len(history.of(name) or ()) <= tenant_tokens for name in "abc")


def kept(history: History, tenant: str) -> list[int]:
    """The first tokens of the tenant's answers, each of which is its own number twice."""
    texts = history.of(tenant)
    return [number for number in range(100) if texts and list(texts.find([number], 1))]


def test_the_oldest_answer_falls_out_whole() -> None:
    history = History(100, 9, 2)
    for number in range(5):
        history.add("a", [number, number])
    assert kept(history, "a") == [2, 3, 4]


def test_the_tenant_unused_for_longest_goes_first() -> None:
    history = History(100, 100, 2)
    history.add("a", [1, 1])
    history.add("b", [2, 2])
    history.of("a")
    history.add("c", [3, 3])
    assert (kept(history, "a"), history.of("b"), kept(history, "c")) == ([1], None, [3])


def test_where_all_have_too_much_together_the_longest_unused_loses_its_oldest_answer() -> None:
    history = History(12, 12, 4)
    for tenant, number in (("a", 1), ("a", 2), ("b", 3), ("b", 4), ("b", 5)):
        history.add(tenant, [number, number])
    assert (kept(history, "a"), kept(history, "b")) == ([2], [3, 4, 5])


def test_an_answer_that_no_store_could_hold_pushes_nothing_out() -> None:
    history = History(10, 10, 2)
    history.add("a", [1, 1])
    history.add("a", [2] * 10)
    history.add("b", [])
    assert (kept(history, "a"), history.num_tenants) == ([1], 1)
