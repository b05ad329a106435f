"""The packed runner gives each sequence the logits that transformers gives it alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Gemma2Config, MistralConfig, Qwen2Config

from common.model.attention import KVPool, PackedBatch, Span, paged_attention
from common.model.batch import Segment
from common.model.block_manager import BLOCK_SIZE, BlockManager
from common.model.runner import ModelRunner
from tests.support.models import reference_logits, tiny_config, tiny_model

VOCABULARY = 64
NUM_BLOCKS = 64
LARGEST_BLOCK = 8
TOLERANCE = 1e-4
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
    "pad_token_id": None,
}
CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": tiny_config,
    "llama with one key head for all": lambda: tiny_config(num_key_value_heads=1),
    "llama with a head size of its own": lambda: tiny_config(head_dim=16),
    "qwen2": lambda: Qwen2Config(num_hidden_layers=2, **SHAPE),
    "qwen2 with windows in the upper layers": lambda: Qwen2Config(
        num_hidden_layers=3, use_sliding_window=True, sliding_window=7, max_window_layers=1, **SHAPE
    ),
    "mistral with a window": lambda: MistralConfig(num_hidden_layers=2, sliding_window=7, **SHAPE),
    "gemma2": lambda: Gemma2Config(
        num_hidden_layers=2,
        head_dim=8,
        sliding_window=7,
        query_pre_attn_scalar=16,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        **SHAPE,
    ),
}


@dataclass
class Stream:
    """One sequence on its way through the runner: ``computed`` of its ``tokens`` are in its blocks."""

    tokens: list[int]
    computed: int = 0
    blocks: list[int] = field(default_factory=list)


class Scattered:
    """Gives out blocks so that a sequence's are hardly ever neighbours."""

    def __init__(self, chance: random.Random) -> None:
        self._free = list(range(NUM_BLOCKS))
        chance.shuffle(self._free)

    def reserve(self, stream: Stream, tokens: int) -> None:
        while len(stream.blocks) * BLOCK_SIZE < tokens:
            stream.blocks.append(self._free.pop())


class Neighbouring:
    def __init__(self, chance: random.Random) -> None:
        self._manager = BlockManager(NUM_BLOCKS)

    def reserve(self, stream: Stream, tokens: int) -> None:
        needed = BlockManager.blocks_for(tokens) - len(stream.blocks)
        if needed > 0:
            stream.blocks += self._manager.allocate(needed, after=stream.blocks)


def token_ids(chance: random.Random, count: int) -> list[int]:
    return [chance.randrange(VOCABULARY) for _ in range(count)]


def next_tokens(stream: Stream, chance: random.Random) -> list[int]:
    """A chunk of the prompt; once that is in, the last token with up to 7 guesses, most of them wrong."""
    left = stream.tokens[stream.computed :]
    if len(left) > 1 and chance.random() < 0.6:
        return left[: chance.randint(1, min(len(left), 24))]
    block = left[: chance.randint(1, LARGEST_BLOCK)]
    return block + token_ids(chance, LARGEST_BLOCK - len(block))


def segment_of(stream: Stream, pool: Scattered | Neighbouring, chance: random.Random) -> Segment:
    tokens = next_tokens(stream, chance)
    pool.reserve(stream, stream.computed + len(tokens))
    return Segment(tokens, stream.computed, list(stream.blocks), logits=chance.randint(0, len(tokens)))


def accept(stream: Stream, segment: Segment) -> None:
    """Keep the tokens that agree with the sequence; the rest is overwritten by the next pass."""
    while stream.computed < len(stream.tokens) and stream.computed - segment.start < len(segment.token_ids):
        if segment.token_ids[stream.computed - segment.start] != stream.tokens[stream.computed]:
            break
        stream.computed += 1


def expected_logits(model: Any, stream: Stream, segment: Segment) -> Tensor:
    whole = [*stream.tokens[: segment.start], *segment.token_ids]
    logits = reference_logits(model, whole, attention="eager")
    return logits[len(whole) - segment.logits :]


def run_all(model: Any, reference: Any, pool: Scattered | Neighbouring, chance: random.Random) -> None:
    runner = ModelRunner(model, NUM_BLOCKS)
    streams = [Stream(token_ids(chance, length)) for length in (1, 3, 17, 40, 60)]
    while unfinished := [stream for stream in streams if stream.computed < len(stream.tokens)]:
        chosen = chance.sample(unfinished, chance.randint(1, len(unfinished)))
        segments = [segment_of(stream, pool, chance) for stream in chosen]
        for stream, segment, output in zip(chosen, segments, runner.run(segments), strict=True):
            expected = expected_logits(reference, stream, segment)
            torch.testing.assert_close(output.logits, expected, atol=TOLERANCE, rtol=0)
            accept(stream, segment)


@pytest.mark.parametrize("pool", [Scattered, Neighbouring])
@pytest.mark.parametrize("architecture", CONFIGS)
def test_packed_and_verified_in_blocks_a_sequence_has_the_logits_it_has_alone(
    architecture: str, pool: type[Scattered] | type[Neighbouring]
) -> None:
    config = CONFIGS[architecture]()
    chance = random.Random(len(architecture))
    model = tiny_model(1, config=config)
    reference = tiny_model(1, attention="eager", config=CONFIGS[architecture]())
    run_all(model, reference, pool(chance), chance)


@pytest.fixture(scope="module")
def llama() -> ModelRunner:
    return ModelRunner(tiny_model(2), NUM_BLOCKS)


@pytest.fixture(scope="module")
def alone() -> Any:
    return tiny_model(2, attention="sdpa")


def test_only_the_logits_asked_for_are_computed(llama: ModelRunner) -> None:
    segments = [Segment([1, 2, 3], 0, [0], logits=1), Segment([4, 5], 0, [1], logits=0)]
    assert [output.logits.shape for output in llama.run(segments)] == [(1, VOCABULARY), (0, VOCABULARY)]


def test_a_pass_that_needs_no_logits_still_fills_the_cache(llama: ModelRunner, alone: Any) -> None:
    tokens = list(range(2, 22))
    llama.run([Segment(tokens[:-1], 0, [3, 9], logits=0)])
    logits = llama.run([Segment(tokens[-1:], 19, [3, 9], logits=1)])[0].logits
    torch.testing.assert_close(logits, reference_logits(alone, tokens)[-1:], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("rejected", range(1, LARGEST_BLOCK + 1))
def test_a_rejected_suffix_leaves_no_trace(llama: ModelRunner, alone: Any, rejected: int) -> None:
    chance = random.Random(rejected)
    tokens, blocks = token_ids(chance, 20), [4, 2, 7]
    llama.run([Segment(tokens[:12], 0, blocks, logits=0)])
    llama.run([Segment(token_ids(chance, rejected), 12, blocks, logits=rejected)])
    logits = llama.run([Segment(tokens[12:], 12, blocks, logits=8)])[0].logits
    torch.testing.assert_close(logits, reference_logits(alone, tokens)[12:], atol=TOLERANCE, rtol=0)


def test_a_block_that_another_sequence_left_leaves_no_trace(llama: ModelRunner, alone: Any) -> None:
    tokens = list(range(5, 25))
    llama.run([Segment(token_ids(random.Random(3), 32), 0, [5, 6], logits=0)])
    logits = llama.run([Segment(tokens, 0, [6, 5], logits=20)])[0].logits
    torch.testing.assert_close(logits, reference_logits(alone, tokens), atol=TOLERANCE, rtol=0)


def test_more_blocks_than_are_used_do_no_harm(llama: ModelRunner, alone: Any) -> None:
    logits = llama.run([Segment([9, 8, 7], 0, [10, 50, 20], logits=3)])[0].logits
    torch.testing.assert_close(logits, reference_logits(alone, [9, 8, 7]), atol=TOLERANCE, rtol=0)


def test_attention_sinks_are_refused_rather_than_ignored() -> None:
    batch = PackedBatch([Span(0, 1, 0, [0])], KVPool(1, torch.float32, "cpu"), "cpu")
    heads = torch.zeros(1, 2, 1, 4)
    with pytest.raises(NotImplementedError, match="sinks"):
        paged_attention(None, heads, heads, heads, None, tandem_batch=batch, s_aux=torch.zeros(2))
