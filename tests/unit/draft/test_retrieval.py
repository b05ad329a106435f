"""The retrieval source: what it makes of a datastore's continuations, and what it will not start with."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import trees
from common.draft_types import Block
from common.errors import ConfigError
from common.model.tokenizer import fingerprint
from common.types import Mode
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import datastore, registry
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.retrieval import RetrievalSource
from tests.support.models import save_tiny, tiny_tokenizer
from tests.unit.draft.sessions import opened
from tests.unit.draft.test_datastore import in_memory, searched
from verify_service.drafts.checking import Asked, check_block

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=30)
documents = st.lists(tokens, min_size=1, max_size=5)


def guess(source: RetrievalSource, session: Session) -> Guess:
    (made,) = source.propose([session])
    assert made is not None
    return made


@given(documents, tokens, st.integers(1, 12), st.integers(1, 8))
def test_every_branch_really_followed_the_longest_tail_in_a_document(
    written: list[list[int]], text: list[int], count: int, width: int
) -> None:
    session = opened(tokens=text, block_size=count, tree_width=width)
    made = guess(RetrievalSource(in_memory(written)), session)
    _, after = searched(written, text)
    assert bool(made.token_ids) == bool(after)
    parents = made.parents or trees.chain(len(made.token_ids))
    for node in range(len(parents)):
        branch = [made.token_ids[step] for step in trees.path(parents, node)]
        assert any(branch == rest[: len(branch)] for rest in after)


@given(documents, tokens, st.integers(1, 16), st.integers(1, 8))
def test_every_guess_is_one_the_verify_service_takes(
    written: list[list[int]], text: list[int], count: int, width: int
) -> None:
    session = opened(tokens=text, block_size=count, tree_width=width)
    made = guess(RetrievalSource(in_memory(written)), session)
    block = Block(1, len(text), made.token_ids, made.parents, confidences=made.confidences)
    check_block(block, Asked(count, width, 100, Mode.REJECTION))
    assert made.distributions == ()
    assert all(0 < confidence < 1 for confidence in made.confidences)


def test_a_continuation_is_as_likely_as_it_is_frequent() -> None:
    source = RetrievalSource(in_memory([*([1, 2, 3],) * 6, *([1, 2, 4],) * 2]))
    made = guess(source, opened(tokens=[1, 2], block_size=2, tree_width=2))
    assert made.token_ids == (3, 4)
    assert made.confidences == pytest.approx((6 / 12, 2 / 12))


def test_sessions_of_one_round_are_answered_each_and_closing_an_unknown_one_is_harmless() -> None:
    source = RetrievalSource(in_memory([[1, 2, 3], [4, 5, 6]]))
    source.close("unknown")
    one, other, third = (opened(name, text) for name, text in (("a", [1, 2]), ("b", [4, 5]), ("c", [2, 1])))
    made = source.propose([one, other, third])
    assert [found and found.token_ids for found in made] == [(3,), (6,), ()]
    assert made[2] == NOTHING


def test_the_configured_source_answers_from_its_datastore(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    written = [tokenizer("we retrieve a document")["input_ids"]]
    datastore.save(tmp_path / "made", written, fingerprint(tokenizer))
    config = Config(source="retrieval", datastore=str(tmp_path / "made"))
    source = registry.make(config, save_tiny(tmp_path / "model"))
    (made,) = source.propose([opened(tokens=tokenizer("a doc")["input_ids"], block_size=9)])
    assert made is not None
    assert tokenizer.decode(made.token_ids) == "ument"


def test_it_does_not_start_without_a_datastore(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TANDEM_DRAFT_DATASTORE"):
        registry.make(Config(source="retrieval"), save_tiny(tmp_path / "model"))


def test_it_does_not_start_with_a_datastore_of_another_tokenizer(tmp_path: Path) -> None:
    datastore.save(tmp_path / "made", [list(range(20))], "theirs")
    config = Config(source="retrieval", datastore=str(tmp_path / "made"))
    with pytest.raises(ConfigError, match=r"TANDEM_DRAFT_DATASTORE.*theirs"):
        registry.make(config, save_tiny(tmp_path / "model"))
