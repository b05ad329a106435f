"""A draft engine in the verify service's process is a link like any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from bench.in_process.link import InProcessLink
from common.draft_types import Block, Close, Commit, Open, Proposed, SessionAnswer
from common.model.runner import model_thread
from common.model.tokenizer import Tokenizer
from common.types import Mode, SamplingParams
from draft_service.engine import DraftEngine
from draft_service.publisher import Publisher
from draft_service.sources.ngram import NgramSource
from draft_service.vocabulary import Vocabulary
from tests.support.models import tiny_tokenizer


@pytest.fixture
async def engine() -> AsyncIterator[DraftEngine]:
    tokenizer = Tokenizer(tiny_tokenizer())
    vocabulary = Vocabulary(tokenizer.fingerprint, 64, 256)
    made = DraftEngine(
        NgramSource(4, 1), vocabulary, Publisher("", tokenizer), model_thread(), max_sessions=4
    )
    work = asyncio.create_task(made.run())
    yield made
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def opened(session_id: str) -> Open:
    return Open(
        session_id=session_id,
        fingerprint=Tokenizer(tiny_tokenizer()).fingerprint,
        vocabulary_size=64,
        token_ids=[1, 2, 3, 1, 2],
        prompt_length=5,
        sampling=SamplingParams(temperature=0),
        mode=Mode.KEYED,
        noise_seed=0,
        block_size=2,
        max_block_size=4,
        tree_width=1,
    )


class Answers:
    """What the callback was told, as blocks."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[SessionAnswer] = asyncio.Queue()

    def put(self, answers: Sequence[SessionAnswer]) -> None:
        for answer in answers:
            self._queue.put_nowait(answer)

    async def block(self) -> Block:
        answer = await asyncio.wait_for(self._queue.get(), 10)
        assert isinstance(answer, Proposed)
        return answer.block


async def test_updates_reach_the_engine_and_blocks_come_back(engine: DraftEngine) -> None:
    link, answers = InProcessLink(engine), Answers()
    link.start(answers.put, lambda: None)
    link.send(opened("a"))
    first = await answers.block()
    assert (first.base_length, first.token_ids) == (5, (3, 1))
    link.send(Commit("a", 5, first.block_id, (0,), (9, 1), 2))
    second = await answers.block()
    assert (second.base_length, second.token_ids) == (8, (2, 3))
    await link.close()


async def test_sessions_end_when_they_are_closed_and_with_the_link(engine: DraftEngine) -> None:
    link, answers = InProcessLink(engine), Answers()
    link.start(answers.put, lambda: None)
    for session_id in ("a", "b"):
        link.send(opened(session_id))
        await answers.block()
    link.send(Close("a"))
    async with asyncio.timeout(10):
        while engine.num_sessions > 1:
            await asyncio.sleep(0.001)
        await link.close()
        while engine.num_sessions:
            await asyncio.sleep(0.001)
