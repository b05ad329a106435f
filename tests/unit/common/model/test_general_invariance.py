"""How much a sequence's logits in the general runner depend on what they are computed with: 1e-4 at most.

Not bit by bit: torch's matrix products and attention pick their loops by the number of rows and keys, and
sum in another order then. int8 and int4 linears do have the same bits; what is between them has not.
"""

from __future__ import annotations

import random

import pytest
import torch

from common.model import linear
from common.model.batch import Segment
from common.model.runner import ModelRunner
from tests.support import fused
from tests.support.fused import VOCABULARY
from tests.support.models import livened, tiny_model
from tests.support.streams import NUM_BLOCKS, Scattered, Stream, Traffic, right, token_ids

TOLERANCE = 1e-4
LENGTH = 61


@pytest.fixture(params=["float32", "int8", "int4"])
def runner(request: pytest.FixtureRequest) -> ModelRunner:
    model = livened(tiny_model(1, config=fused.config("llama")), seed=1)
    if request.param != "float32":
        linear.quantise(model, request.param, threads=2)
    return ModelRunner(model, NUM_BLOCKS)


def test_in_any_traffic_logits_stay_near_and_the_likeliest_token_is_the_same(runner: ModelRunner) -> None:
    chance = random.Random(7)
    tokens = token_ids(chance, LENGTH, VOCABULARY)
    alone = runner.run([Segment(tokens, 0, [0, 1, 2, 3], logits=LENGTH)])[0].logits
    traffic = Traffic(chance, Scattered(chance), 16, VOCABULARY)
    ours, others = Stream(tokens), [Stream(traffic.token_ids(chance.randint(1, 60))) for _ in range(7)]
    compared = 0
    for stream, segment, output in traffic.run(runner, [ours, *others]):
        first = len(segment.token_ids) - segment.logits
        agreeing = right(stream, segment) - first
        if stream is ours and agreeing > 0:
            expected = alone[segment.start + first :][:agreeing]
            torch.testing.assert_close(output.logits[:agreeing], expected, atol=TOLERANCE, rtol=0)
            assert torch.equal(output.logits[:agreeing].argmax(-1), expected.argmax(-1))
            compared += agreeing
    assert compared > 10
