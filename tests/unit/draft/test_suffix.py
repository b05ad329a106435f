"""The suffix source: whose texts it looks in, what it makes of them, and what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import trees
from common.draft_types import Block
from common.errors import ConfigError
from common.types import Mode
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import registry
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.history import History
from draft_service.sources.suffix import SuffixSource, read_templates
from tests.support.models import save_tiny, tiny_tokenizer
from tests.unit.draft.sessions import commitment, opened
from verify_service.drafts.checking import Asked, check_block

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def source_with(*answers: Sequence[int], templates: Sequence[Sequence[int]] = ()) -> SuffixSource:
    history = History(10_000, 10_000, 8)
    for answer in answers:
        history.add("", answer)
    return SuffixSource(history, templates)


def guess(source: SuffixSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


def answered(
    source: SuffixSource, session_id: str, prompt: Sequence[int], answer: Sequence[int], tenant: str
) -> None:
    """A session from its opening to its close."""
    session = opened(session_id, [*prompt, *answer], prompt_length=len(prompt), tenant=tenant)
    source.propose([session])
    source.close(session_id)


def branches(made: Guess) -> list[tuple[int, ...]]:
    """From the root to every guess."""
    parents = made.parents or trees.chain(len(made.token_ids))
    return [tuple(made.token_ids[step] for step in trees.path(parents, node)) for node in range(len(parents))]


def followed(text: Sequence[int], tail: int, count: int) -> set[tuple[int, ...]]:
    """What stands after each ``tail`` in a text that has ended."""
    return {tuple(text[at + 1 : at + 1 + count]) for at, token in enumerate(text) if token == tail}


@given(tokens, st.lists(tokens, max_size=3), tokens, st.integers(1, 12), st.integers(1, 8))
def test_every_branch_really_followed_the_last_token_somewhere(
    text: list[int], answers: list[list[int]], template: list[int], count: int, width: int
) -> None:
    session = opened(tokens=text, block_size=count, tree_width=width)
    made = guess(source_with(*answers, templates=[template]), session)
    there = set[tuple[int, ...]]()
    for other in (*answers, template):
        there |= followed(other, text[-1], count)
    for start in (at + 1 for at, token in enumerate(text[:-1]) if token == text[-1]):
        grown = list(text)
        for offset in range(count):
            grown.append(grown[start + offset])
        there.add(tuple(grown[len(text) :]))
    assert bool(made.token_ids) == any(there)
    for branch in branches(made):
        assert any(branch == whole[: len(branch)] for whole in there)


@given(tokens, st.lists(tokens, max_size=3), st.integers(1, 16), st.integers(1, 8))
def test_every_guess_is_one_the_verify_service_takes_and_is_sure_of_itself_by_degrees(
    text: list[int], answers: list[list[int]], count: int, width: int
) -> None:
    made = guess(source_with(*answers), opened(tokens=text, block_size=count, tree_width=width))
    block = Block(1, len(text), made.token_ids, made.parents, confidences=made.confidences)
    check_block(block, Asked(count, width, 100, Mode.REJECTION))
    assert len(made.confidences) == len(made.token_ids)
    assert all(0 < confidence < 1 for confidence in made.confidences)
    parents = made.parents or trees.chain(len(made.token_ids))
    for siblings, above in zip(trees.children(parents), (1.0, *made.confidences), strict=True):
        assert sum(made.confidences[node] for node in siblings) < above


@given(tokens, st.lists(st.tuples(st.integers(0, 4), tokens), max_size=5))
def test_what_was_guessed_and_not_committed_leaves_no_trace(
    text: list[int], commits: list[tuple[int, list[int]]]
) -> None:
    source = source_with([1, 2, 3, 0])
    session = opened(tokens=text, tree_width=1)
    for accepted, committed in commits:
        made = guess(source, session)
        session.remember(1, made.token_ids)
        nodes = min(accepted, len(made.token_ids))
        session.commit(
            commitment(base_length=len(session.tokens), block_id=1, accepted=nodes, tokens=committed)
        )
    fresh = opened("fresh", session.tokens)
    assert guess(source, session) == guess(source_with([1, 2, 3, 0]), fresh)


@given(tokens, tokens, tokens)
def test_a_session_opened_again_is_read_afresh(
    first: list[int], second: list[int], answer: list[int]
) -> None:
    source = source_with(answer)
    source.propose([opened(tokens=first)])
    assert guess(source, opened(tokens=second)) == guess(source_with(answer), opened(tokens=second))


def test_what_occurs_more_often_or_matches_longer_comes_first() -> None:
    often = source_with([1, 5], [1, 6], [1, 6])
    assert guess(often, opened(tokens=[9, 1], block_size=2, tree_width=2)).token_ids == (6, 5)
    longer = source_with([8, 9, 1, 5], [1, 6], [1, 6])
    assert guess(longer, opened(tokens=[8, 9, 1], block_size=2, tree_width=2)).token_ids == (5, 6)


def test_the_sessions_own_text_counts_more_than_others() -> None:
    source = source_with([1, 6], [1, 6], [1, 6])
    assert guess(source, opened(tokens=[1, 5, 1], block_size=1)).token_ids == (5,)


def test_a_guess_is_as_sure_as_its_share_of_what_was_seen() -> None:
    source = source_with(*([1, 5],) * 6, *([1, 6],) * 2)
    made = guess(source, opened(tokens=[9, 1], block_size=2, tree_width=2))
    assert made.token_ids == (5, 6)
    assert made.confidences == pytest.approx((6 / 16, 2 / 16))


def test_an_answer_helps_its_tenant_once_the_session_is_closed() -> None:
    source = source_with()
    answering = opened("first", [1, 2, 3, 4], prompt_length=1, tenant="ours")
    source.propose([answering])
    asking = opened("second", [7, 2], tenant="ours")
    assert guess(source, asking) == NOTHING
    source.close("first")
    assert guess(source, asking).token_ids == (3, 4)


def test_the_tokens_committed_last_are_part_of_the_answer() -> None:
    source = source_with()
    answering = opened("first", [1, 2], prompt_length=1)
    source.propose([answering])
    answering.commit(commitment("first", 2, tokens=[3, 4]))
    source.close("first")
    assert guess(source, opened("second", [2])).token_ids == (3, 4)


def test_a_prompt_helps_nobody_else() -> None:
    source = source_with()
    answered(source, "first", [1, 2, 3], [4], "ours")
    assert guess(source, opened("second", [7, 1], tenant="ours")) == NOTHING


@given(st.lists(st.tuples(st.sampled_from("abc"), tokens), min_size=1, max_size=6), tokens)
def test_tenants_do_not_see_each_others_answers(
    history: list[tuple[str, list[int]]], text: list[int]
) -> None:
    everybody, only_a = source_with(), source_with()
    for number, (tenant, answer) in enumerate(history):
        answered(everybody, str(number), [9], answer, tenant)
        if tenant == "a":
            answered(only_a, str(number), [9], answer, tenant)
    asking = opened("asking", text, tenant="a", tree_width=4, block_size=8)
    assert guess(everybody, asking) == guess(only_a, asking)


def test_sessions_of_one_round_are_answered_each_from_its_own_text() -> None:
    one, other = opened("a", [1, 2, 1]), opened("b", [1, 3, 4])
    made, nothing = source_with().propose([one, other])
    assert made is not None
    assert made.token_ids == (2, 1, 2, 1)
    assert nothing == NOTHING


def test_closing_a_session_that_was_never_seen_is_harmless() -> None:
    source_with().close("unknown")


def test_templates_are_the_texts_between_dashes(tmp_path: Path) -> None:
    path = tmp_path / "templates.txt"
    path.write_text("Dear customer,\n  thank you.\n---\n\n---  \nYours\n")
    assert read_templates(str(path)) == ["Dear customer,\n  thank you.\n", "Yours\n"]


@pytest.mark.parametrize("content", [None, b"", b"---\n \n---", b"\xff\xfe"])
def test_a_bad_file_of_templates_is_refused_by_the_name_of_its_variable(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "templates.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"TANDEM_DRAFT_TEMPLATES: .*templates\.txt"):
        read_templates(str(path))


def test_the_configured_source_knows_its_templates(tmp_path: Path) -> None:
    path = tmp_path / "templates.txt"
    path.write_text("dear customer")
    source = registry.make(Config(source="suffix", templates=str(path)), save_tiny(tmp_path / "model"))
    encode = tiny_tokenizer()
    session = opened(tokens=encode("my dear")["input_ids"], block_size=9)
    (made,) = source.propose([session])
    assert made is not None
    assert encode.decode(made.token_ids) == " customer"
