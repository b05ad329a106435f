"""A target that looks at one token: what follows a token in a long answer is drawn anew each time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from common.types import Mode, SamplingParams, SpeculationParams, Stopping
from tests.statistical.reference import Array
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


async def walked(
    mode: Mode, width: int, *drafts: str, answers: int = ANSWERS, **options: Any
) -> tuple[Array, float]:
    """How often which token followed which in long answers, and how many guesses stood per pass.

    ``options`` are those of ``make_engine``.
    """
    logits = transitions()
    tokenizer = CharTokenizer([chr(ord("a") + place) for place in range(VOCABULARY - 1)])
    bench = make_engine(lambda prefix: logits[prefix[-1]], tokenizer=tokenizer, num_blocks=1024, **options)
    asked = [
        ask(
            [1 + seed % (VOCABULARY - 1)],
            *drafts,
            sampling=SamplingParams(temperature=1.0, seed=seed),
            stopping=Stopping(max_tokens=LENGTH),
            speculation=SpeculationParams(mode=mode, tree_width=width),
        )
        for seed in range(answers)
    ]
    async with running(bench.engine, deadline_seconds=60):
        told = await asyncio.gather(*(read(bench.engine, each) for each in asked))
    await bench.hub.shutdown()
    counts = np.zeros((VOCABULARY, VOCABULARY))
    for request, answer in zip(asked, told, strict=True):
        text = [*request.prompt, *answer.token_ids]
        np.add.at(counts, (text[:-1], text[1:]), 1)
    found = [answer.finished.stats for answer in told]
    return counts, sum(each.accepted_tokens for each in found) / sum(each.steps for each in found)


def p_value(counts: Array) -> float:
    """Of the counts, were each token drawn from the target's distribution after the one before."""
    expected = torch.softmax(transitions().double(), -1).numpy() * counts.sum(1, keepdims=True)
    seen = counts.sum(1) > 0
    counts, expected = counts[seen, 1:], expected[seen, 1:]
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, counts.shape[0] * (counts.shape[1] - 1)))
