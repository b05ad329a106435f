"""Answers drafted by looking ahead have exactly the target's distribution."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from common.types import Mode, SamplingParams, SpeculationParams, Stopping
from tests.statistical.reference import Array
from tests.support.always_looking import always_looking
from tests.support.scripted import CharTokenizer, ask, make_engine, read, running

VOCABULARY = 12
ANSWERS = 32
LENGTH = 96


def transitions() -> Tensor:
    """[vocabulary, vocabulary]: the logits after a token; never those of an answer's end."""
    chance = random.Random(4)
    rows = [[chance.gauss(0, 1.5) for _ in range(VOCABULARY)] for _ in range(VOCABULARY)]
    logits = torch.tensor(rows)
    logits[:, 0] = -100
    return logits


async def walked(width: int) -> tuple[Array, float]:
    """How often which token followed which in long answers, and how many guesses stood per pass."""
    logits = transitions()
    tokenizer = CharTokenizer([chr(ord("a") + place) for place in range(VOCABULARY - 1)])
    bench = make_engine(
        lambda prefix: logits[prefix[-1]],
        tokenizer=tokenizer,
        lookahead=always_looking(4, 3),
        num_blocks=1024,
    )
    asked = [
        ask(
            [1 + seed % (VOCABULARY - 1)],
            sampling=SamplingParams(temperature=1.0, seed=seed),
            stopping=Stopping(max_tokens=LENGTH),
            speculation=SpeculationParams(mode=Mode.REJECTION, tree_width=width),
        )
        for seed in range(ANSWERS)
    ]
    async with running(bench.engine, deadline_seconds=60):
        answers = await asyncio.gather(*(read(bench.engine, each) for each in asked))
    counts = np.zeros((VOCABULARY, VOCABULARY))
    for request, answer in zip(asked, answers, strict=True):
        text = [*request.prompt, *answer.token_ids]
        np.add.at(counts, (text[:-1], text[1:]), 1)
    found = [answer.finished.stats for answer in answers]
    return counts, sum(each.accepted_tokens for each in found) / sum(each.steps for each in found)


@pytest.mark.parametrize("width", [1, 3])
async def test_each_token_of_a_long_answer_has_the_targets_distribution(width: int) -> None:
    """The target looks at one token, so what follows a token is drawn anew each time."""
    counts, accepted = await walked(width)
    expected = torch.softmax(transitions().double(), -1).numpy() * counts.sum(1, keepdims=True)
    seen = counts.sum(1) > 0
    counts, expected = counts[seen, 1:], expected[seen, 1:]
    statistic = float(((counts - expected) ** 2 / expected).sum())
    p_value = stats.chi2.sf(statistic, counts.shape[0] * (counts.shape[1] - 1))
    assert p_value > 0.001, f"p = {p_value:.2g} with {accepted:.2f} guesses accepted a pass"
    assert accepted > 0.3, "hardly a guess is accepted; that tests nothing"
