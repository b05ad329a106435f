"""The packed runner gives each sequence the logits that transformers gives it alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)

from common.model.attention import KVPool, PackedBatch, Span, paged_attention
from common.model.batch import Segment
from common.model.runner import ModelRunner
from tests.support.models import livened, reference_logits, tiny_config, tiny_model
from tests.support.streams import (
    NUM_BLOCKS,
    Neighbouring,
    Pool,
    Scattered,
    Stream,
    Traffic,
    expected_logits,
    token_ids,
)

VOCABULARY = 64
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


def gpt2(**changes: Any) -> GPT2Config:
    """It has positions that are learned, and linears that are transposed convolutions."""
    return GPT2Config(
        vocab_size=VOCABULARY,
        n_layer=3,
        n_embd=32,
        n_head=4,
        n_positions=128,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=None,
        **changes,
    )


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
    "gemma3, every third layer looks at all": lambda: Gemma3TextConfig(
        num_hidden_layers=3,
        head_dim=8,
        sliding_window=7,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        query_pre_attn_scalar=16,
        **SHAPE,
    ),
    "qwen3": lambda: Qwen3Config(num_hidden_layers=2, head_dim=16, **SHAPE),
    "phi3": lambda: Phi3Config(num_hidden_layers=2, **SHAPE),
    "phi3 with a window": lambda: Phi3Config(num_hidden_layers=2, sliding_window=7, **SHAPE),
    "gpt2": gpt2,
    "gpt2 with scores scaled by layer": lambda: gpt2(scale_attn_by_inverse_layer_idx=True),
}


def run_all(model: Any, reference: Any, pool: Pool, chance: random.Random) -> None:
    runner = ModelRunner(model, NUM_BLOCKS)
    traffic = Traffic(chance, pool, LARGEST_BLOCK - 1, VOCABULARY)
    streams = [Stream(traffic.token_ids(length)) for length in (1, 3, 17, 40, 60)]
    for stream, segment, output in traffic.run(runner, streams):
        expected = expected_logits(reference, stream, segment)
        torch.testing.assert_close(output.logits, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("pool", [Scattered, Neighbouring])
@pytest.mark.parametrize("architecture", CONFIGS)
def test_packed_and_verified_in_blocks_a_sequence_has_the_logits_it_has_alone(
    architecture: str, pool: Callable[[random.Random], Pool]
) -> None:
    config = CONFIGS[architecture]()
    chance = random.Random(len(architecture))
    model = livened(tiny_model(1, config=config), seed=1)
    reference = livened(tiny_model(1, attention="eager", config=CONFIGS[architecture]()), seed=1)
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
    tokens, blocks = token_ids(chance, 20, VOCABULARY), [4, 2, 7]
    llama.run([Segment(tokens[:12], 0, blocks, logits=0)])
    llama.run([Segment(token_ids(chance, rejected, VOCABULARY), 12, blocks, logits=rejected)])
    logits = llama.run([Segment(tokens[12:], 12, blocks, logits=8)])[0].logits
    torch.testing.assert_close(logits, reference_logits(alone, tokens)[12:], atol=TOLERANCE, rtol=0)


def test_a_block_that_another_sequence_left_leaves_no_trace(llama: ModelRunner, alone: Any) -> None:
    tokens = list(range(5, 25))
    llama.run([Segment(token_ids(random.Random(3), 32, VOCABULARY), 0, [5, 6], logits=0)])
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
