"""Heads on hidden states from end to end: the verify step, the wire, the source, and back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from common.draft_types import Close, SessionUpdate
from common.types import Mode, SamplingParams
from draft_service.heads.running import RunningHead
from draft_service.heads.shape import Kind
from draft_service.sources.base import Source
from draft_service.sources.eagle import EagleSource
from draft_service.sources.medusa import MedusaSource
from tests.integration.test_trees import GREEDY, SEED, answers, draft_service, requests
from tests.support.heads import (
    HIDDEN,
    VOCABULARY,
    own_answers,
    own_states,
    tiny_parts,
    tiny_shape,
    tiny_trainer,
)
from tests.support.models import tiny_model
from tests.support.scripted import Answer, read, running
from tests.support.source_link import SourceLink
from tests.support.tiny_engine import tiny_engine

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


class RecordingLink(SourceLink):
    """Keeps what was sent: states by position, and the tokens they came with; the last ones come without."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.states: dict[int, torch.Tensor] = {}
        self.again = 0
        self.tokens: list[int] = []

    def send(self, update: SessionUpdate) -> None:
        if not isinstance(update, Close) and update.hidden_states:
            rows = torch.frombuffer(bytearray(update.hidden_states.bfloat16), dtype=torch.bfloat16)
            for index, row in enumerate(rows.view(-1, len(SENT) * HIDDEN)):
                position = update.hidden_states.first_position + index
                self.again += position in self.states
                self.states[position] = row
        super().send(update)
        if not isinstance(update, Close) and update.hidden_states:
            self.tokens = list(self._sessions[update.session_id].tokens)


@pytest.mark.parametrize("width", [1, 3])
async def test_the_states_sent_are_those_of_the_committed_tokens_each_once(
    taught: dict[Kind, RunningHead], width: int
) -> None:
    """In chains and in trees, where the accepted rows lie apart."""
    link = RecordingLink(EagleSource(taught["eagle"]))
    engine, _ = tiny_engine(tiny_model(SEED), lambda _: link, hidden_layers=SENT)
    (request, *_) = requests("draft", sampling=SamplingParams(seed=5), tree_width=width)
    async with running(engine, deadline_seconds=60):
        answer = await read(engine, request)
    assert answer.finished.stats.accepted_tokens > 0
    reference = tiny_model(SEED, attention="sdpa")
    tokens = torch.tensor([link.tokens])
    with torch.inference_mode():
        hidden = reference(tokens, output_hidden_states=True).hidden_states
    expected = torch.cat([hidden[layer][0] for layer in SENT], -1)
    assert (sorted(link.states), link.again) == ([*range(len(link.tokens) - 1)], 0)
    for position, row in link.states.items():
        torch.testing.assert_close(row.float(), expected[position], rtol=2e-2, atol=2e-2)
