"""With a real model: whatever a sequence shares, copies and recomputes, its logits are those it has alone."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq
from typing import Any

import pytest
import torch

from common.draft_types import Block
from common.model.block_manager import BLOCK_SIZE, BlockManager
from common.model.runner import ModelRunner, model_thread
from common.model.tokenizer import Tokenizer
from common.types import GenerateRequest, SamplingParams, Stopping
from tests.support.models import reference_greedy, reference_logits, tiny_model, tiny_tokenizer
from tests.support.scripted import GREEDY, Answer, read, running
from tests.unit.verify.kv_steps import Ran, assert_consistent, commit, no_block, one_pass
from tests.unit.verify.support import counting, make_sequence
from verify_service.admission import Admission
from verify_service.drafts.hub import DraftHub
from verify_service.engine import Engine
from verify_service.scheduler import Scheduler, TakeBlock
from verify_service.sequence import Sequence
from verify_service.tags import TagReader

VOCABULARY = 64
WRITABLE = 40  # tokens that the sequences' own tokenizer can write
NUM_BLOCKS = 16
TOLERANCE = 1e-4
SEED = 5


@pytest.fixture(scope="module")
def alone() -> Any:
    return tiny_model(SEED, attention="sdpa")


class Served:
    """A scheduler over a runner, every logit of which is compared with the model's own forward pass."""

    def __init__(self, reference: Any, *, num_blocks: int = NUM_BLOCKS, max_batch_tokens: int = 256) -> None:
        self.pool = BlockManager(num_blocks)
        self.scheduler = Scheduler(self.pool, 8, 64, max_batch_tokens)
        self._runner = ModelRunner(tiny_model(SEED), num_blocks)
        self._reference = reference

    def add(self, tokens: Seq[int], max_length: int = 200) -> Sequence:
        sequence = make_sequence(tokens, max_length=max_length)
        self.scheduler.add(sequence)
        return sequence

    def step(self, chance: random.Random, take_block: TakeBlock = no_block) -> list[Ran]:
        """One pass, of which each block's guesses are accepted up to a random one."""
        ran = one_pass(self.scheduler, self._runner, take_block)
        for part in ran:
            self._compare(part)
        for part in ran:
            accepted = range(chance.randint(0, len(part.work.guesses)))
            commit(self.scheduler, part, accepted, chance.randrange(WRITABLE))
        assert_consistent(self.pool, self.scheduler)
        return ran

    def finish(self, chance: random.Random, take_block: TakeBlock = no_block) -> None:
        while self.scheduler.running or self.scheduler.waiting:
            self.step(chance, take_block)
            for sequence in [s for s in self.scheduler.running if s.num_left <= 0]:
                self.scheduler.remove(sequence)

    def _compare(self, part: Ran) -> None:
        whole = [*part.work.sequence.tokens[: part.segment.start], *part.segment.token_ids]
        expected = reference_logits(self._reference, whole)[part.segment.start :]
        torch.testing.assert_close(part.output.logits, expected, atol=TOLERANCE, rtol=0)


def token_ids(chance: random.Random, count: int) -> list[int]:
    return [chance.randrange(WRITABLE) for _ in range(count)]


def block_of(chance: random.Random) -> TakeBlock:
    return lambda s: Block(
        1, len(s.tokens), tuple(token_ids(chance, min(chance.randint(0, 8), s.num_left - 1)))
    )


@pytest.mark.parametrize("length", [BLOCK_SIZE, 2 * BLOCK_SIZE, 3 * BLOCK_SIZE])
def test_a_prompt_cached_whole_is_copied_before_its_last_token_is_computed_again(
    alone: Any, length: int
) -> None:
    chance = random.Random(length)
    served = Served(alone)
    prompt = token_ids(chance, length)
    first = served.add(prompt)
    served.step(chance)
    others = [served.add(prompt), served.add(prompt)]
    starts = {part.work.sequence: part.segment.start for part in served.step(chance, block_of(chance))}
    assert starts == {first: length, others[0]: length - 1, others[1]: length - 1}
    tables = [sequence.blocks for sequence in (first, *others)]
    last = length // BLOCK_SIZE - 1
    assert len({tuple(table[:last]) for table in tables}) == 1
    assert len({table[last] for table in tables}) == 3
    for _ in range(10):
        served.step(chance, block_of(chance))


@pytest.mark.parametrize("length", [1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 5])
def test_forks_share_all_that_is_computed_and_part_ways_from_there(alone: Any, length: int) -> None:
    chance = random.Random(length)
    served = Served(alone)
    sequence = served.add(token_ids(chance, length))
    served.step(chance)
    twins = [make_sequence(sequence.tokens, max_length=200) for _ in range(3)]
    for twin in twins:
        served.scheduler.fork(sequence, twin)
        assert (twin.blocks, twin.num_computed) == (sequence.blocks, length)
    for _ in range(12):
        served.step(chance, block_of(chance))
    assert len({tuple(s.tokens) for s in (sequence, *twins)}) == 4


@pytest.mark.parametrize("seed", range(4))
def test_shared_evicted_preempted_and_recomputed_a_sequence_has_the_logits_it_has_alone(
    alone: Any, seed: int
) -> None:
    chance = random.Random(seed)
    served = Served(alone, max_batch_tokens=chance.choice([24, 64]))
    system = token_ids(chance, 40)
    with (
        counting("tandem_prefix_cache_hits_total") as hits,
        counting("tandem_prefix_cache_evictions_total") as evictions,
        counting("tandem_num_preemptions_total") as preemptions,
    ):
        for _ in range(12):
            opening = system[: chance.choice([BLOCK_SIZE, 2 * BLOCK_SIZE, 40])]
            tokens = opening + token_ids(chance, chance.choice([0, 3, 30]))
            served.add(tokens, max_length=len(tokens) + chance.randint(10, 60))
        served.finish(chance, block_of(chance))
    assert min(hits.by, evictions.by, preemptions.by) > 0


def engine_over(num_blocks: int, max_batch_tokens: int, prefix_caching: bool) -> Engine:
    tokenizer = Tokenizer(tiny_tokenizer())
    admission = Admission(
        tokenizer=tokenizer,
        model_name="tiny",
        system_fingerprint="tiny",
        vocabulary_size=VOCABULARY,
        context_length=200,
        eos_token_ids=frozenset(),
        block_size=4,
        max_block_size=4,
        fact_checks=False,
    )
    scheduler = Scheduler(BlockManager(num_blocks), 8, 64, max_batch_tokens, prefix_caching)
    runner = ModelRunner(tiny_model(SEED), num_blocks)
    hub = DraftHub(tokenizer.fingerprint, VOCABULARY, 0.1)
    return Engine(admission, scheduler, runner, model_thread(), drafts=hub, tags=TagReader(""))


async def answers_of(engine: Engine, prompts: Seq[list[int]], sampling: SamplingParams) -> list[Answer]:
    async with running(engine):
        return [
            await read(engine, GenerateRequest("r", prompt, sampling, Stopping(max_tokens=24)))
            for prompt in prompts
        ]


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(seed=9)], ids=["greedy", "seeded"])
@pytest.mark.parametrize("budget", [16, 512])
async def test_warm_or_cold_an_engine_gives_the_same_tokens(
    alone: Any, sampling: SamplingParams, budget: int
) -> None:
    system = token_ids(random.Random(1), 64)
    prompts = [system, [*system, 3, 4], system, [*system, 3], system[:48]]
    cold = await answers_of(engine_over(64, 512, False), prompts, sampling)
    warm = await answers_of(engine_over(64, budget, True), prompts, sampling)
    assert [answer.token_ids for answer in warm] == [answer.token_ids for answer in cold]
    assert [answer.finished.usage.cached_tokens for answer in warm] == [0, 64, 63, 64, 47]
    if sampling is GREEDY:
        assert [a.token_ids for a in warm] == [reference_greedy(alone, prompt, 24) for prompt in prompts]
