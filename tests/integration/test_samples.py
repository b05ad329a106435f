"""What is published of a sampled answer is what the target thought, whatever was drafted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from common.samples import LIKELIEST
from common.types import SamplingParams
from tests.integration.test_trees import GREEDY, SEED, requests, source_of
from tests.support.models import reference_logits, tiny_model
from tests.support.scripted import read, running
from tests.support.source_link import SourceLink
from tests.support.tiny_engine import tiny_engine
from verify_service.distil.draws import Sampling
from verify_service.distil.publisher import sample_of
from verify_service.sequence import Sequence


class Kept:
    def __init__(self) -> None:
        self.sequences: list[Sequence] = []

    def publish(self, sequence: Sequence) -> None:
        self.sequences.append(sequence)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(seed=5, temperature=0.7)])
async def test_it_is_that_of_every_token_of_chains_and_trees(sampling: SamplingParams, width: int) -> None:
    """At temperature 1, before penalties, as a head learns it."""
    kept = Kept()
    engine, _ = tiny_engine(tiny_model(SEED), lambda _: SourceLink(source_of("noisy")))
    engine._admission = replace(engine._admission, sampling=Sampling(1.0))
    engine._samples = kept  # type: ignore[assignment]
    accepted = 0
    async with running(engine, deadline_seconds=60):
        for request in requests("draft", sampling=sampling, tree_width=width):
            accepted += (await read(engine, request)).finished.stats.accepted_tokens
    assert accepted > 0
    reference = tiny_model(SEED, attention="sdpa")
    for sequence in kept.sequences:
        sample = sample_of(sequence, "f")
        assert sample is not None
        assert sample.greedy is (sampling is GREEDY)
        said = reference_logits(reference, sample.token_ids)[sample.prompt_length - 1 : -1].softmax(-1)
        expected = said.topk(LIKELIEST)
        assert np.allclose(sample.probabilities, expected.values, atol=2e-3)
        own = np.take_along_axis(said.numpy(), sample.likeliest.astype(np.int64), 1)
        assert np.allclose(sample.probabilities, own, atol=2e-3)
