"""The fused runner in float32 gives each sequence the logits that transformers gives it alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from common.model.batch import Move, Segment
from common.model.fused.runner import FusedRunner
from tests.support import fused
from tests.support.fused import VOCABULARY
from tests.support.models import reference_greedy, reference_logits
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

TOLERANCE = 1e-4
MOST_GUESSES = 16


@pytest.mark.parametrize("pool", [Scattered, Neighbouring])
@pytest.mark.parametrize("name", fused.CONFIGS)
def test_packed_and_verified_in_blocks_a_sequence_has_the_logits_it_has_alone(
    name: str, pool: Callable[[random.Random], Pool]
) -> None:
    chance = random.Random(len(name))
    model = fused.model(name)
    traffic = Traffic(chance, pool(chance), MOST_GUESSES, VOCABULARY)
    streams = [Stream(traffic.token_ids(length)) for length in (1, 3, 17, 40, 70)]
    for stream, segment, output in traffic.run(fused.runner_of(model, threads=2), streams):
        expected = expected_logits(model, stream, segment)
        torch.testing.assert_close(output.logits, expected, atol=TOLERANCE, rtol=0)
        assert torch.equal(output.logits.argmax(-1), expected.argmax(-1))


@pytest.fixture(scope="module")
def model() -> Any:
    return fused.model("llama", seed=2)


@pytest.fixture(scope="module")
def runner(model: Any) -> FusedRunner:
    return fused.runner_of(model)


def ids(seed: int, count: int) -> list[int]:
    return token_ids(random.Random(seed), count, VOCABULARY)


@pytest.mark.parametrize("name", ["llama", "qwen2 with windows in the upper layers", "qwen3"])
def test_decoded_token_by_token_it_chooses_what_transformers_chooses(name: str) -> None:
    model = fused.model(name, seed=3)
    runner, tokens, blocks = fused.runner_of(model), ids(4, 5), [9, 4, 7]
    logits = runner.run([Segment(tokens, 0, blocks, logits=1)])[0].logits
    chosen = [int(logits.argmax())]
    while len(chosen) < 32:
        logits = runner.run([Segment(chosen[-1:], 4 + len(chosen), blocks, logits=1)])[0].logits
        chosen.append(int(logits.argmax()))
    assert chosen == reference_greedy(model, tokens, 32, attention="eager")


@pytest.mark.parametrize("width", range(MOST_GUESSES + 1))
def test_guesses_of_any_number_have_their_logits_and_leave_no_trace_when_rejected(
    runner: FusedRunner, model: Any, width: int
) -> None:
    tokens, guesses, blocks = ids(width, 30), ids(width + 100, width), [4, 2, 7]
    runner.run([Segment(tokens[:12], 0, blocks, logits=0)])
    guessed = runner.run([Segment([tokens[12], *guesses], 12, blocks, logits=width + 1)])[0].logits
    expected = reference_logits(model, [*tokens[:13], *guesses])[12:]
    torch.testing.assert_close(guessed, expected, atol=TOLERANCE, rtol=0)
    after = runner.run([Segment(tokens[13:], 13, blocks, logits=17)])[0].logits
    torch.testing.assert_close(after, reference_logits(model, tokens)[13:], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layers", [(0,), (2,), (2, 0, 1), ()])
def test_hidden_states_are_those_of_transformers(model: Any, layers: tuple[int, ...]) -> None:
    runner, tokens = fused.runner_of(model, hidden_layers=layers), ids(7, 20)
    runner.run([Segment(tokens[:6], 0, [3, 1], logits=0)])
    segments = [Segment(ids(8, 5), 0, [2], logits=1), Segment(tokens[6:], 6, [3, 1], logits=0, hidden=True)]
    unwanted, wanted = runner.run(segments)
    states = model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    expected = torch.cat([states[layer][0, 6:] for layer in layers], -1) if layers else torch.empty(14, 0)
    assert unwanted.hidden is None
    assert wanted.hidden is not None
    torch.testing.assert_close(wanted.hidden, expected, atol=TOLERANCE, rtol=0)


def test_only_the_logits_asked_for_are_computed(runner: FusedRunner) -> None:
    segments = [Segment([1, 2, 3], 0, [0], logits=1), Segment([4, 5], 0, [1], logits=0)]
    assert [output.logits.shape for output in runner.run(segments)] == [(1, VOCABULARY), (0, VOCABULARY)]


def test_a_segment_without_tokens_and_a_pass_without_segments_do_no_harm(
    runner: FusedRunner, model: Any
) -> None:
    tokens = ids(9, 20)
    assert runner.run([]) == []
    nothing, something = runner.run([Segment([], 5, [8], 0), Segment(tokens, 0, [1, 2], logits=20)])
    assert nothing.logits.shape == (0, VOCABULARY)
    torch.testing.assert_close(something.logits, reference_logits(model, tokens), atol=TOLERANCE, rtol=0)


def test_a_pass_of_moves_alone_moves(runner: FusedRunner, model: Any) -> None:
    tokens = ids(10, 12)
    runner.run([Segment(tokens[:11], 0, [6], logits=0)])
    assert runner.run([], [Move(6 * 16 + slot, 40 * 16 + slot) for slot in range(11)]) == []
    logits = runner.run([Segment(tokens[11:], 11, [40], logits=1)])[0].logits
    torch.testing.assert_close(logits, reference_logits(model, tokens)[-1:], atol=TOLERANCE, rtol=0)


def test_every_source_of_a_move_is_read_before_a_target_is_written(runner: FusedRunner, model: Any) -> None:
    one, other = ids(11, 17), ids(12, 17)
    runner.run([Segment(one[:16], 0, [20], logits=0), Segment(other[:16], 0, [21], logits=0)])
    swap = [Move(a * 16 + slot, b * 16 + slot) for a, b in ((20, 21), (21, 20)) for slot in range(16)]
    segments = [Segment(one[16:], 16, [21, 30], logits=1), Segment(other[16:], 16, [20, 31], logits=1)]
    for output, tokens in zip(runner.run(segments, swap), (one, other), strict=True):
        expected = reference_logits(model, tokens)[-1:]
        torch.testing.assert_close(output.logits, expected, atol=TOLERANCE, rtol=0)


def test_guesses_past_the_end_of_the_context_are_computed_as_transformers_computes_them(model: Any) -> None:
    runner, tokens = fused.runner_of(model), ids(13, fused.CONTEXT + MOST_GUESSES)
    logits = runner.run([Segment(tokens, 0, list(range(NUM_BLOCKS)), logits=MOST_GUESSES)])[0].logits
    expected = reference_logits(model, tokens)[-MOST_GUESSES:]
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("name", "segment", "moves"),
    [
        ("token_ids", Segment([VOCABULARY], 0, [0], 1), []),
        ("token_ids", Segment([3, -1], 0, [0], 1), []),
        ("blocks", Segment([3], 0, [NUM_BLOCKS], 1), []),
        ("blocks", Segment([3], 0, [-1], 1), []),
        ("positions", Segment([3], 600, list(range(NUM_BLOCKS)), 1), []),
        ("move_sources", Segment([3], 0, [0], 1), [Move(NUM_BLOCKS * 16, 0)]),
        ("move_targets", Segment([3], 0, [0], 1), [Move(0, -1)]),
    ],
)
def test_what_would_leave_the_kernels_memory_is_refused_by_name(
    runner: FusedRunner, name: str, segment: Segment, moves: list[Move]
) -> None:
    with pytest.raises(IndexError, match=name):
        runner.run([segment], moves)


def test_a_pool_that_does_not_fit_is_refused(model: Any) -> None:
    with pytest.raises(MemoryError, match="blocks"):
        fused.runner_of(model, num_blocks=2**27 - 1)


def test_more_threads_than_there_are_tasks_give_the_same_bits(runner: FusedRunner, model: Any) -> None:
    segment = Segment(ids(14, 3), 0, [5], logits=3)
    many = fused.runner_of(model, threads=24).run([segment])[0].logits
    assert torch.equal(many, runner.run([segment])[0].logits)
