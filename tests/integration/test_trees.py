"""Trees from end to end: a tiny model, its real runner, real sources, and the real stream between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from common import rpc
from common.model.runner import ModelRunner, model_thread
from common.model.tokenizer import Tokenizer
from common.types import DraftEndpoint, GenerateRequest, Mode, SamplingParams, SpeculationParams, Stopping
from draft_service.engine import DraftEngine
from draft_service.publisher import Publisher
from draft_service.servicer import DraftServicer
from draft_service.sources.base import Source
from draft_service.sources.cascade import CascadeSource
from draft_service.sources.datastore import Datastore, sort_suffixes
from draft_service.sources.engines import DraftModel
from draft_service.sources.history import History
from draft_service.sources.ngram import NgramSource
from draft_service.sources.paged import PagedSource
from draft_service.sources.pool import BestSource, MergingSource
from draft_service.sources.reencode import ReencodingSource
from draft_service.sources.retrieval import RetrievalSource
from draft_service.sources.rule_file import load_rules
from draft_service.sources.rules import RuleSource
from draft_service.sources.suffix import SuffixSource
from draft_service.vocabulary import Vocabulary
from protos.tandem.v1 import draft_pb2, draft_pb2_grpc
from tests.support.models import CONTEXT_LENGTH, reference_greedy, tiny_model, tiny_tokenizer
from tests.support.scripted import Answer, read, running
from tests.support.source_link import SourceLink
from tests.support.tiny_engine import tiny_engine
from verify_service import metrics

GREEDY = SamplingParams(temperature=0)
SEED = 11
ANSWER_TOKENS = 24
SEEN = np.random.default_rng(3).integers(0, 8, 4096, np.uint32)  # what the sources of text have read before


def noisy_copy(noise: float) -> Any:
    """The target with its weights disturbed: a draft that is mostly right and often unsure."""
    model = tiny_model(SEED)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(noise * weights.std() * torch.randn(weights.shape, generator=generator))
    return model


def draft_model(model: Any) -> DraftModel:
    return DraftModel(ModelRunner(model, 256), 256, "v")


TEXT_SOURCES: dict[str, Callable[[], Source]] = {
    "ngram": lambda: NgramSource(4, 1),
    "suffix": lambda: SuffixSource(History(4096, 4096, 4), [SEEN.tolist()]),
    "retrieval": lambda: RetrievalSource(Datastore(SEEN.astype(">u4"), sort_suffixes(SEEN).astype("<u4"))),
    "rules": lambda: RuleSource(Tokenizer(tiny_tokenizer()), load_rules("")),
}
KINDS = ["noisy", "unrelated", "cascade", "merge", "best", "re-encoded", *TEXT_SOURCES]


def source_of(kind: str) -> Source:
    if kind in TEXT_SOURCES:
        return TEXT_SOURCES[kind]()
    if kind == "re-encoded":
        return in_another_vocabulary()
    model = draft_model(tiny_model(SEED + 1) if kind == "unrelated" else noisy_copy(0.15))
    match kind:
        case "cascade":
            return CascadeSource(NgramSource(4, 1), model, 64, 0.1)
        case "merge":
            return MergingSource([NgramSource(4, 1), model.source("self", 64)])
        case "best":
            return BestSource([NgramSource(4, 1), model.source("self", 64)])
        case _:
            return model.source("self", 64)


def in_another_vocabulary() -> Source:
    """The noisy draft, with the target's characters under other ids."""
    tokenizer = tiny_tokenizer()
    order = [0, 1, *random.Random(3).sample(range(2, 64), 62)]  # their new ids are their places
    tokens = tokenizer.convert_ids_to_tokens(order)
    backend = tokenizer.backend_tokenizer
    backend.model = WordLevel({token: place for place, token in enumerate(tokens)}, unk_token="<unk>")
    theirs = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="<eos>")
    model = noisy_copy(0.15)
    with torch.no_grad():
        for rows in (model.get_input_embeddings().weight, model.get_output_embeddings().weight):
            rows.copy_(rows[order].clone())
    inner = draft_model(model).source("model", 64)
    return ReencodingSource(inner, Tokenizer(theirs), Tokenizer(tiny_tokenizer()))


@asynccontextmanager
async def draft_service(source: Source) -> AsyncIterator[str]:
    """The draft service on a real port; its address."""
    tokenizer = Tokenizer(tiny_tokenizer())
    vocabulary = Vocabulary(tokenizer.fingerprint, 64, CONTEXT_LENGTH)
    engine = DraftEngine(source, vocabulary, Publisher("", tokenizer), model_thread(), max_sessions=64)
    server = rpc.Server("127.0.0.1:0")
    servicer = DraftServicer(engine, draft_pb2.DraftStatus())
    draft_pb2_grpc.add_DraftServiceServicer_to_server(servicer, server.grpc)
    await server.start()
    work = asyncio.create_task(engine.run())
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await server.drain(0)


def requests(*drafts: str, sampling: SamplingParams, **speculation: Any) -> list[GenerateRequest]:
    return [
        GenerateRequest(
            str(index),
            [3 + index, 7, 2 * index, 7, 3 + index, 7],
            sampling,
            Stopping(max_tokens=ANSWER_TOKENS),
            SpeculationParams(**speculation),
            tuple(DraftEndpoint("pool", address) for address in drafts),
        )
        for index in range(6)
    ]


async def answers(asked: list[GenerateRequest], **options: Any) -> list[Answer]:
    engine, hub = tiny_engine(tiny_model(SEED), **options)
    async with running(engine, deadline_seconds=60):
        found = await asyncio.gather(*(read(engine, request) for request in asked))
    await hub.shutdown()
    return list(found)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sampling",
    [GREEDY, SamplingParams(seed=5), SamplingParams(seed=-7, top_p=0.9, repetition_penalty=1.2)],
    ids=["greedy", "seeded", "seeded and penalised"],
)
async def test_answers_over_the_stream_are_those_of_the_target_alone(
    sampling: SamplingParams, kind: str, width: int
) -> None:
    plain = await answers(requests(sampling=sampling))
    async with draft_service(source_of(kind)) as address:
        drafted = await answers(requests(address, sampling=sampling, tree_width=width))
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]
    if sampling is GREEDY:
        reference = tiny_model(SEED, attention="sdpa")
        prompts = [request.prompt for request in requests(sampling=sampling)]
        assert [answer.token_ids for answer in drafted] == [
            reference_greedy(reference, prompt, ANSWER_TOKENS)  # type: ignore[arg-type]
            for prompt in prompts
        ]


async def test_branches_over_the_stream_are_accepted() -> None:
    """A first block is not waited for, so on a busy machine an answer may end before any comes."""
    asked = SamplingParams(seed=5)
    accepted = 0
    async with draft_service(source_of("noisy")) as address, asyncio.timeout(100):
        while not accepted:
            drafted = await answers(requests(address, sampling=asked, tree_width=3))
            accepted = sum(answer.finished.stats.accepted_tokens for answer in drafted)


async def test_the_answer_says_which_source_of_a_pool_wrote_a_token() -> None:
    named: set[str] = set()
    async with draft_service(source_of("merge")) as address, asyncio.timeout(100):
        while "pool/self" not in named:
            drafted = await answers(requests(address, sampling=GREEDY, tree_width=3))
            named |= {made.source for answer in drafted for made in answer.provenance}
    assert named <= {"", "pool/self", "pool/ngram"}


async def test_a_pool_too_small_for_all_and_a_small_budget_change_nothing() -> None:
    sampling = SamplingParams(seed=5)
    plain = await answers(requests(sampling=sampling))
    async with draft_service(source_of("noisy")) as address:
        asked = requests(address, sampling=sampling, tree_width=3, block_size=12)
        drafted = await answers(asked, num_blocks=6, max_batch_tokens=24)
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]


async def tokens_per_step(mode: Mode, temperature: float, noise: float, width: int) -> float:
    """With blocks of eight guesses. Nothing here is left to chance or to the clock."""
    source = PagedSource("self", ModelRunner(noisy_copy(noise), 64), 64, 64, "v")
    return await tokens_per_step_of(source, mode, temperature, width)


async def tokens_per_step_of(source: Source, mode: Mode, temperature: float, width: int) -> float:
    engine, _ = tiny_engine(tiny_model(SEED), lambda _: SourceLink(source))
    steps = tokens = 0
    async with running(engine, deadline_seconds=120):
        for seed in range(8):
            request = GenerateRequest(
                str(seed),
                [3 + seed, 7, 2 * seed],
                SamplingParams(temperature=temperature, seed=seed),
                Stopping(max_tokens=40),
                SpeculationParams(mode=mode, block_size=8, tree_width=width),
                (DraftEndpoint("pool", "draft"),),
            )
            answer = await read(engine, request)
            steps += answer.finished.stats.steps
            tokens += len(answer.token_ids)
    return tokens / steps


@pytest.mark.parametrize(
    ("mode", "temperature", "noise", "gain"),
    [(Mode.KEYED, 0, 0.15, 1.12), (Mode.KEYED, 1, 0.15, 1.12), (Mode.REJECTION, 1, 0.3, 1.06)],
    ids=["greedy", "keyed", "rejection"],
)
async def test_where_the_draft_is_unsure_a_tree_beats_a_chain_of_as_many_guesses(
    mode: Mode, temperature: float, noise: float, gain: float
) -> None:
    chain = await tokens_per_step(mode, temperature, noise, width=1)
    tree = await tokens_per_step(mode, temperature, noise, width=3)
    print(f"{mode.value} at temperature {temperature}: chain {chain:.2f}, tree {tree:.2f} tokens per step")
    assert tree > gain * chain


@pytest.mark.parametrize("kind", ["cascade", "merge", "best", "re-encoded"])
@pytest.mark.parametrize(("mode", "temperature"), [(Mode.KEYED, 0), (Mode.REJECTION, 1)])
async def test_guesses_of_every_source_that_runs_a_model_are_accepted(
    kind: str, mode: Mode, temperature: float
) -> None:
    mismatches = metrics.BLOCKS.labels("q_mismatch")._value.get()
    reached = await tokens_per_step_of(source_of(kind), mode, temperature, width=2)
    print(f"{kind}, {mode.value} at temperature {temperature}: {reached:.2f} tokens per step")
    assert reached > (1.8 if temperature == 0 else 1.2)
    assert metrics.BLOCKS.labels("q_mismatch")._value.get() == mismatches
