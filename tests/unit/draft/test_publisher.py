"""Blocks on their way to the fact check: where each token ends in the text, and what a dead Redis costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.draft_types import Block
from common.model.tokenizer import Tokenizer
from common.streams import LAST_BLOCK, DraftRecord
from draft_service import metrics
from draft_service.publisher import Decoder, Publisher, record
from tests.support.models import tiny_tokenizer
from tests.support.valkey import free_port
from tests.unit.draft.byte_tokenizers import byte_fallback, byte_level
from tests.unit.draft.fakes import PATIENCE_SECONDS, Letters
from tests.unit.draft.sessions import opened

TINY = Tokenizer(tiny_tokenizer())
TOKENIZERS = {"characters": TINY, "bytes": byte_level(), "bytes where needed": byte_fallback()}
TEXTS = st.text(alphabet="abc é€😀", max_size=12)


def recorded(decoder: Decoder, committed: list[int], guesses: list[int]) -> DraftRecord:
    block = Block(block_id=8, base_length=len(committed), token_ids=tuple(guesses), source="ngram")
    return record(decoder, opened(tokens=committed), block)


def outcome(name: str) -> float:
    value = prometheus_client.REGISTRY.get_sample_value(
        "tandem_draft_published_blocks_total", {"outcome": name}
    )
    return value or 0.0


@asynccontextmanager
async def publishing(url: str) -> AsyncIterator[Publisher]:
    metrics.start_at_zero()
    publisher = Publisher(url, Letters())
    work = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
        await publisher.close()


@pytest.fixture
def dead_redis() -> str:
    """The address of nobody."""
    return f"redis://127.0.0.1:{free_port()}/0"


def test_a_record_names_its_session_block_and_source() -> None:
    made = recorded(TINY, TINY.encode("abc"), TINY.encode("de"))
    assert (made.session_id, made.block_id, made.base_length, made.source) == ("s", 8, 3, "ngram")


def test_a_record_holds_the_committed_text_and_then_the_blocks() -> None:
    made = recorded(TINY, TINY.encode("the tower is "), TINY.encode("300 m"))
    assert made.text == "the tower is 300 m"
    assert made.text[made.block_start :] == "300 m"
    assert made.token_ends == (14, 15, 16, 17, 18)


def test_a_record_holds_no_more_than_a_tail_of_the_committed_text() -> None:
    made = recorded(TINY, TINY.encode("x" * 200 + "y"), TINY.encode("z"))
    assert made.text == "x" * 63 + "yz"
    assert (made.block_start, made.token_ends) == (64, (65,))


def continued(
    committed: list[int], prompt_length: int, guesses: list[int], further: list[int]
) -> DraftRecord:
    """The second record of a session, after a first one with ``guesses`` and then ``further`` tokens."""
    session = opened(tokens=committed, prompt_length=prompt_length)
    record(TINY, session, Block(1, len(committed), tuple(guesses)))
    session.tokens += further
    return record(TINY, session, Block(2, len(session.tokens), tuple(TINY.encode("zz"))))


def test_a_record_says_what_of_the_committed_text_is_new() -> None:
    """As drafted up to "300", then the target went on with "ft"."""
    made = continued(TINY.encode("how tall? it is "), 10, TINY.encode("300m"), TINY.encode("300ft"))
    assert made.text[made.since :] == "ftzz"
    assert made.text[made.since : made.block_start] == "ft"
    starts = [made.text[start] for start in made.tail_starts]
    assert "".join(starts) == made.text[made.block_start - len(starts) : made.block_start]
    assert starts[-2:] == ["f", "t"]


def test_a_first_record_holds_all_of_the_answer_and_nothing_of_the_prompt_is_new() -> None:
    session = opened(tokens=TINY.encode("how tall? it is "), prompt_length=10)
    made = record(TINY, session, Block(1, 16, tuple(TINY.encode("tall"))))
    assert made.text[made.since :] == "it is tall"


def test_the_last_record_has_what_came_after_the_last_block() -> None:
    session = opened(tokens=TINY.encode("how tall? "), prompt_length=10)
    record(TINY, session, Block(1, 10, tuple(TINY.encode("it"))))
    session.tokens += TINY.encode("it is 9m")
    made = record(TINY, session, Block(LAST_BLOCK, len(session.tokens), ()))
    assert (made.text[made.since :], made.token_ends) == (" is 9m", ())
    assert made.block_start == len(made.text)


def test_a_special_token_ends_where_it_begins() -> None:
    made = recorded(TINY, TINY.encode("a"), [*TINY.encode("b"), 1, *TINY.encode("c")])
    assert (made.text, made.token_ends) == ("abc", (2, 2, 3))


def test_a_character_of_several_bytes_ends_with_its_last_one() -> None:
    tokenizer = TOKENIZERS["bytes"]
    made = recorded(tokenizer, tokenizer.encode("a"), tokenizer.encode("€b"))
    assert (made.text, made.block_start, made.token_ends[-2:]) == ("a€b", 1, (2, 3))


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(TEXTS, st.data())
def test_tokens_end_one_after_the_other_within_the_text(kind: str, text: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode("a" + text)
    cut = data.draw(st.integers(1, len(tokens)))
    end = data.draw(st.integers(cut, len(tokens)))
    made = recorded(tokenizer, tokens[:cut], tokens[cut:end])
    assert made.text == tokenizer.decode(tokens[:end])
    bounds = (0, made.block_start, *made.token_ends, len(made.text))
    assert all(earlier <= later for earlier, later in pairwise(bounds))
    assert (made.token_ends or (made.block_start,))[-1] == len(made.text)


@pytest.mark.parametrize("kind", ["bytes", "bytes where needed"])
@given(TEXTS)
def test_the_last_byte_of_a_character_ends_where_the_character_does(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode("a" + text)
    made = recorded(tokenizer, tokens[:1], tokens[1:])
    ends = {len(tokenizer.encode("a" + text[:count])) - 2: count + 1 for count in range(1, len(text) + 1)}
    assert {index: made.token_ends[index] for index in ends} == ends


async def test_a_redis_that_is_not_there_never_holds_up_drafting(dead_redis: str) -> None:
    session, block = opened(publish=True), Block(1, 3, (4, 5))
    dropped = outcome("dropped")
    async with publishing(dead_redis) as publisher:
        started = time.perf_counter()
        for _ in range(5000):
            publisher.publish(session, block)
        assert time.perf_counter() - started < PATIENCE_SECONDS / 2
    assert outcome("dropped") > dropped


async def test_what_cannot_be_sent_is_counted_with_all_that_waited_behind_it(dead_redis: str) -> None:
    session, block = opened(publish=True), Block(1, 3, (4, 5))
    failed = outcome("failed")
    async with publishing(dead_redis) as publisher, asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(10):
            publisher.publish(session, block)
        while outcome("failed") < failed + 10:
            await asyncio.sleep(0.005)
        publisher.publish(session, block)
        while outcome("failed") < failed + 11:
            await asyncio.sleep(0.005)


async def test_without_a_redis_everything_is_dropped_and_there_is_nothing_to_do() -> None:
    dropped = outcome("dropped")
    publisher = Publisher("", Letters())
    publisher.publish(opened(publish=True), Block(1, 3, (4, 5)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await publisher.run()
    await publisher.close()
    assert outcome("dropped") == dropped + 1
