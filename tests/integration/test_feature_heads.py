"""Heads on hidden states from end to end: the verify step, the wire, the source, and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from common.types import Mode, SamplingParams
from draft_service.heads.running import RunningHead
from draft_service.heads.shape import Kind
from draft_service.sources.base import Source
from draft_service.sources.eagle import EagleSource
from draft_service.sources.medusa import MedusaSource
from tests.integration.test_trees import GREEDY, SEED, answers, draft_service, requests
from tests.support.heads import VOCABULARY, own_answers, own_states, tiny_parts, tiny_shape, tiny_trainer
from tests.support.models import tiny_model
from tests.support.scripted import Answer

LAYERS = (1, 2)
SENT = (0, 1, 2)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, RunningHead]:
    """Heads trained for a second, so that some of their guesses stand."""
    folder: Path = tmp_path_factory.mktemp("heads")
    found = own_answers(tiny_model(SEED, attention="sdpa"), count=96)
    target = tiny_model(SEED)
    states = own_states(folder, target, found, LAYERS)

    def teach(kind: Kind) -> RunningHead:
        trainer = tiny_trainer(folder / kind, target, found, states, tiny_shape(kind, LAYERS))
        for _ in range(60):
            trainer.step()
        head = trainer.head.eval().requires_grad_(False)
        return RunningHead(head, tiny_parts(target), torch.arange(VOCABULARY), "taught")

    return {"eagle": teach("eagle"), "medusa": teach("medusa")}


def source_of(taught: dict[Kind, RunningHead], kind: Kind) -> Source:
    return EagleSource(taught[kind]) if kind == "eagle" else MedusaSource(taught[kind])


async def accepted_over_the_stream(
    source: Source, sampling: SamplingParams, **options: Any
) -> tuple[list[Answer], int]:
    """A first block is not waited for, so on a busy machine an answer may end before any comes."""
    accepted = 0
    async with draft_service(source) as address, asyncio.timeout(100):
        while not accepted:
            drafted = await answers(requests(address, sampling=sampling, **options), hidden_layers=SENT)
            accepted = sum(answer.finished.stats.accepted_tokens for answer in drafted)
    return drafted, accepted


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("kind", ["eagle", "medusa"])
@pytest.mark.parametrize(
    "sampling",
    [GREEDY, SamplingParams(seed=5), SamplingParams(seed=-7, top_p=0.9, repetition_penalty=1.2)],
    ids=["greedy", "seeded", "seeded and penalised"],
)
async def test_guesses_stand_and_answers_are_those_of_the_target_alone(
    taught: dict[Kind, RunningHead], sampling: SamplingParams, kind: Kind, width: int
) -> None:
    plain = await answers(requests(sampling=sampling))
    drafted, _ = await accepted_over_the_stream(source_of(taught, kind), sampling, tree_width=width)
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]


@pytest.mark.parametrize("kind", ["eagle", "medusa"])
async def test_under_rejection_guesses_stand(taught: dict[Kind, RunningHead], kind: Kind) -> None:
    sampling = SamplingParams(seed=3)
    source = source_of(taught, kind)
    await accepted_over_the_stream(source, sampling, tree_width=2, mode=Mode.REJECTION)


async def test_sequences_that_give_up_their_blocks_and_are_computed_again_change_nothing(
    taught: dict[Kind, RunningHead],
) -> None:
    """Their states are computed again too, and the draft has them already."""
    sampling = SamplingParams(seed=5)
    plain = await answers(requests(sampling=sampling))
    async with draft_service(EagleSource(taught["eagle"])) as address:
        asked = requests(address, sampling=sampling, tree_width=3, block_size=12)
        drafted = await answers(asked, num_blocks=6, max_batch_tokens=24, hidden_layers=SENT)
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]


async def test_a_head_refuses_a_target_that_does_not_send_what_it_reads(
    taught: dict[Kind, RunningHead],
) -> None:
    plain = await answers(requests(sampling=GREEDY))
    async with draft_service(EagleSource(taught["eagle"])) as address:
        drafted = await answers(requests(address, sampling=GREEDY), hidden_layers=(2,))
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]
    assert all(answer.finished.stats.drafts == 0 for answer in drafted)
