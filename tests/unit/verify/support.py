"""Sequences made by hand, targets that are not scripts, and counters read back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from prometheus_client import REGISTRY
from torch import Tensor

from common.types import (
    DraftEndpoint,
    FactCheck,
    GenerateRequest,
    Mode,
    SamplingParams,
    SpeculationParams,
    Stopping,
)
from tests.support.scripted import GREEDY, CharTokenizer, Target
from verify_service import sequence as sequences
from verify_service.facts import FactCheckSession
from verify_service.output import Output


def endpoints(*addresses: str) -> tuple[DraftEndpoint, ...]:
    return tuple(DraftEndpoint(f"pool-{address}", address) for address in addresses)


def make_sequence(
    tokens: Sequence[int],
    *addresses: str,
    session_id: str = "session",
    max_length: int = 1000,
    block_size: int = 4,
    mode: Mode = Mode.KEYED,
    seed: int = 7,
    sampling: SamplingParams = GREEDY,
    fact_check: FactCheck = FactCheck.OFF,
    cache_salt: str = "",
) -> sequences.Sequence:
    """As admission would make it, without a tokenizer."""
    speculation = SpeculationParams(fact_check=fact_check)
    return sequences.Sequence(
        session_id=session_id,
        request=GenerateRequest(
            session_id,
            list(tokens),
            sampling,
            Stopping(),
            speculation,
            endpoints(*addresses),
            cache_salt=cache_salt,
        ),
        tokens=list(tokens),
        prompt_length=len(tokens),
        max_length=max_length,
        mode=mode,
        seed=seed,
        block_size=block_size if addresses else 0,
        output=Output(CharTokenizer(), tokens, Stopping(), frozenset({0}), max_length - len(tokens)),
        facts=None if fact_check is FactCheck.OFF else FactCheckSession(fact_check),
    )


def hashed_target(vocabulary_size: int, salt: int = 0, spread: float = 2.0, drift: float = 0.0) -> Target:
    """Logits drawn anew for every prefix; two targets of one salt and different drift resemble each other."""

    def logits(prefix: tuple[int, ...]) -> Tensor:
        noise = random.Random(hash((salt, *prefix)))
        own = [noise.gauss(0, spread) for _ in range(vocabulary_size)]
        other = random.Random(hash((salt, drift, *prefix)))
        return torch.tensor([value + drift * other.gauss(0, spread) for value in own])

    return logits


@dataclass
class Counted:
    """How far a counter moved."""

    by: float = 0.0


@contextmanager
def counting(name: str, **labels: str) -> Iterator[Counted]:
    counted, before = Counted(), sample(name, **labels)
    yield counted
    counted.by = sample(name, **labels) - before


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for what another task does."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)
