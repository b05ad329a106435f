"""A real engine over a tiny model, asked for many three-token answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from common.constraint import Constraint
from common.grammar import Compiler
from common.model.block_manager import BlockManager
from common.model.runner import ModelRunner, model_thread
from common.model.tokenizer import Tokenizer
from common.types import (
    Delta,
    DraftEndpoint,
    GenerateRequest,
    Mode,
    SamplingParams,
    SpeculationParams,
    Stopping,
    ValidatorChoice,
)
from tests.statistical.reference import Array, Target
from tests.support.models import tiny_tokenizer
from verify_service.acceptance import ACCEPTANCE, Acceptance
from verify_service.admission import Admission
from verify_service.constraints import Constraints
from verify_service.drafts.hub import DraftHub
from verify_service.drafts.link import Link
from verify_service.engine import Engine
from verify_service.scheduler import Scheduler
from verify_service.tags import TagReader
from verify_service.validators.vetting import Vetting

ANSWER = 3
TO_THE_END = Stopping(max_tokens=ANSWER)
_BATCH = 256
_NUM_BLOCKS = 1024


def engine(
    model: Any,
    draft: Link | None,
    acceptance: Mapping[Mode, Acceptance],
    tree_width: int,
    vetting: Vetting | None = None,
    **options: Any,
) -> Engine:
    """Chains of two guesses, so that one is followed by another and both by a bonus token; trees of four."""
    block_size = 2 if tree_width == 1 else 4
    tokenizer = Tokenizer(tiny_tokenizer())
    vocabulary = int(model.config.vocab_size)
    admission = Admission(
        tokenizer=tokenizer,
        model_name="tiny",
        system_fingerprint="tiny",
        vocabulary_size=vocabulary,
        context_length=64,
        eos_token_ids=frozenset(),
        block_size=block_size,
        max_block_size=block_size,
        fact_checks=False,
        constraints=Constraints(Compiler(tokenizer.bytewise, vocabulary), 60) if tokenizer.bytewise else None,
        tree_width=tree_width,
        vetting=vetting,
    )
    return Engine(
        admission,
        Scheduler(BlockManager(_NUM_BLOCKS), _BATCH, 100_000, 8192),
        ModelRunner(model, _NUM_BLOCKS),
        model_thread(),
        drafts=DraftHub(
            tokenizer.fingerprint, vocabulary, 1.0, make_link=lambda _: draft or _no_draft(), **options
        ),
        tags=TagReader(""),
        vetting=vetting,
        acceptance=acceptance,
    )


def _no_draft() -> Link:
    raise AssertionError("no draft was planned")


async def count_outcomes(
    model: Any,
    target: Target,
    params: SamplingParams,
    mode: Mode,
    *,
    draft: Link | None,
    samples: int,
    acceptance: Mapping[Mode, Acceptance] = ACCEPTANCE,
    stopping: Stopping = TO_THE_END,
    constraint: Constraint | None = None,
    tree_width: int = 1,
    vetting: Vetting | None = None,
    validators: tuple[ValidatorChoice, ...] = (),
    **options: Any,
) -> tuple[Array, float]:
    """How often each three-token answer came, and the share of guesses accepted. Seeds 0 to ``samples``.

    ``options`` are the hub's.
    """
    runs = engine(model, draft, acceptance, tree_width, vetting, **options)
    counts = np.zeros((target.vocabulary,) * ANSWER)
    loop = asyncio.create_task(runs.run())
    drafts = (DraftEndpoint("in-process", "in-process"),) if draft else ()
    requests = [
        GenerateRequest(
            request_id=str(seed),
            prompt=list(target.prompt),
            sampling=replace(params, seed=seed),
            stopping=stopping,
            constraint=constraint,
            speculation=SpeculationParams(mode=mode, validators=validators),
            drafts=drafts,
        )
        for seed in range(samples)
    ]
    accepted = drafted = 0
    for tokens, answer_accepted, answer_drafted in await asyncio.gather(
        *(_answer(runs, r) for r in requests)
    ):
        counts[tuple(tokens)] += 1
        accepted += answer_accepted
        drafted += answer_drafted
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    if runs._admission.constraints:
        await runs._admission.constraints.close()
    return counts, accepted / max(drafted, 1)


async def _answer(runs: Engine, request: GenerateRequest) -> tuple[Sequence[int], int, int]:
    tokens: list[int] = []
    accepted = drafted = 0
    async for event in runs.generate(request):
        if isinstance(event, Delta):
            tokens += event.token_ids
        elif hasattr(event, "stats"):
            accepted, drafted = event.stats.accepted_tokens, event.stats.draft_tokens
    return tokens, accepted, drafted
