"""A head is replaced while its source drafts; what does not fit is refused and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from common.errors import ConfigError
from common.model import store
from common.model.runner import model_thread
from common.model.tokenizer import Tokenizer
from common.types import Mode, SamplingParams
from draft_service import metrics
from draft_service.config import Config
from draft_service.engine import DraftEngine
from draft_service.heads import files, running
from draft_service.heads.files import HeadFile
from draft_service.heads.shape import Kind
from draft_service.heads.versions import Versions
from draft_service.publisher import Publisher
from draft_service.sources.base import Source
from draft_service.sources.eagle import EagleSource
from draft_service.sources.medusa import MedusaSource
from draft_service.sources.ngram import NgramSource
from draft_service.sources.pool import MergingSource
from draft_service.swapping import Swapper, preparing
from draft_service.vocabulary import Vocabulary
from tests.support.heads import VOCABULARY, tiny_head, tiny_shape
from tests.support.models import save_tiny, tiny_model
from tests.unit.draft.fakes import Letters, ScriptedSource
from tests.unit.draft.test_eagle import go_on, guess, session_of

LAYERS = (1, 2)
SEED = 6
TEXT = [5, 9, 3, 40, 7, 7, 22, 13]
OTHER_TOKENS = torch.arange(64 - VOCABULARY, 64)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", seed=SEED)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_model(SEED, attention="sdpa")


def fingerprint(model: str) -> str:
    return Tokenizer(store.load_tokenizer(model), store.eos_token_ids(model)).fingerprint


def head_file(model: str, seed: int, kind: Kind = "eagle", tokens: torch.Tensor | None = None) -> HeadFile:
    shape = tiny_shape(kind, LAYERS)
    weights = tiny_head(shape, seed).state_dict()
    if kind == "medusa":  # its blocks begin as nothing
        weights["join.weight"] += 0.1 * torch.randn(1, generator=torch.Generator().manual_seed(seed))
    return HeadFile(
        shape, weights, torch.arange(VOCABULARY) if tokens is None else tokens, f"v{seed}", fingerprint(model)
    )


def config(model: str) -> Config:
    return Config(model=model, weights="float32", threads=1)


def source_of(model: str, file: HeadFile) -> EagleSource | MedusaSource:
    head = running.prepared(config(model), model, file)
    return EagleSource(head) if file.shape.kind == "eagle" else MedusaSource(head)


@asynccontextmanager
async def swapping(model: str, source: Source, folder: Path) -> AsyncIterator[tuple[Swapper, DraftEngine]]:
    vocabulary = Vocabulary(fingerprint(model), 64, context_length=128)
    engine = DraftEngine(source, vocabulary, Publisher("", Letters()), model_thread(), max_sessions=4)
    prepare = preparing(config(model), model, source, vocabulary.fingerprint)
    work = asyncio.create_task(engine.run())
    try:
        yield Swapper(Versions(folder), engine, prepare), engine
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def publish(folder: Path, file: HeadFile) -> None:
    Versions(folder).publish(file.module(), file, {})


def outcomes() -> tuple[float, float]:
    taken, refused = (metrics.HEAD_SWAPS.labels(outcome)._value.get() for outcome in ("taken", "refused"))
    return taken, refused


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), SamplingParams(temperature=0.8)])
@pytest.mark.parametrize("kind", ["eagle", "medusa"])
@pytest.mark.parametrize("tokens", [None, OTHER_TOKENS], ids=["same tokens", "other tokens"])
def test_after_a_swap_a_session_gets_what_the_new_head_would_have_said_from_the_start(
    *, model: str, target: Any, kind: Kind, tokens: torch.Tensor | None, sampling: SamplingParams, mode: Mode
) -> None:
    """With the q that it says so with, before the next commit and after it."""
    old, new = head_file(model, 1, kind), head_file(model, 2, kind, tokens)
    source = source_of(model, old)
    options: dict[str, Any] = {"mode": mode, "sampling": sampling, "tree_width": 2, "block_size": 5}
    session = session_of(target, TEXT[:5], **options)
    before = guess(source, session)  # type: ignore[arg-type]
    source.replacement(running.prepared(config(model), model, new))()
    for _ in range(2):
        fresh = guess(source_of(model, new), session_of(target, session.tokens, **options))  # type: ignore[arg-type]
        made = guess(source, session)  # type: ignore[arg-type]
        assert (made.token_ids, made.parents) == (fresh.token_ids, fresh.parents)
        assert made.confidences == pytest.approx(fresh.confidences, rel=1e-3)
        for ours, theirs in zip(made.distributions, fresh.distributions, strict=True):
            assert ours.token_ids == theirs.token_ids
            assert ours.probabilities == pytest.approx(theirs.probabilities, rel=1e-3)
        go_on(target, session, TEXT[len(session.tokens) :][:2])
    assert before.token_ids != fresh.token_ids or before.distributions != fresh.distributions
    assert source.model_version == "v2"


async def test_the_current_version_is_taken_up_once_and_again_when_it_changes(
    tmp_path: Path, model: str
) -> None:
    taken, refused = outcomes()
    async with swapping(model, source_of(model, head_file(model, 1)), tmp_path) as (swapper, engine):
        await swapper.poll()
        assert engine.model_version == "v1"
        publish(tmp_path, head_file(model, 1))
        publish(tmp_path, head_file(model, 2))
        for _ in range(2):
            await swapper.poll()
        assert engine.model_version == "v2.2"
        assert outcomes() == (taken + 1, refused)
        Versions(tmp_path).roll_back()
        await swapper.poll()
        assert engine.model_version == "v1"
        assert outcomes() == (taken + 2, refused)
        assert metrics.HEAD_VERSION._value.get() == 1


async def test_in_a_pool_the_part_that_has_such_a_head_gets_it(tmp_path: Path, model: str) -> None:
    pool = MergingSource([NgramSource(4, 1), source_of(model, head_file(model, 1))])
    publish(tmp_path, head_file(model, 5))
    async with swapping(model, pool, tmp_path) as (swapper, engine):
        await swapper.poll()
        assert engine.model_version.endswith("eagle-v5")


def spoil(path: Path, model: str, how: str) -> None:
    file = head_file(model, 3)
    match how:
        case "cut short":
            path.write_bytes(path.read_bytes()[:1000])
        case "not a head":
            path.write_text("hello")
        case "gone":
            path.unlink()
        case "another shape":
            shape = tiny_shape(layers=(2,))
            files.save(path, tiny_head(shape), HeadFile(shape, {}, file.vocabulary, "w", file.fingerprint))
        case "another target":
            files.save(path, file.module(), replace(file, fingerprint="theirs"))
        case "no numbers":
            head = file.module()
            head.join.weight[0, 0] = torch.nan
            files.save(path, head, file)
        case "a token that is none":
            files.save(path, file.module(), replace(file, vocabulary=file.vocabulary + 40))
        case "too few tokens":
            files.save(path, file.module(), replace(file, vocabulary=file.vocabulary[:9]))
        case "a token below 0":
            files.save(path, file.module(), replace(file, vocabulary=file.vocabulary - 1))
        case "weights of another shape":
            head = tiny_head(tiny_shape(layers=(2,)))
            files.save(path, head, file)


@pytest.mark.parametrize(
    "how",
    [
        "cut short",
        "not a head",
        "gone",
        "another shape",
        "another target",
        "no numbers",
        "a token that is none",
        "too few tokens",
        "a token below 0",
        "weights of another shape",
    ],
)
async def test_a_version_that_is_no_good_is_refused_once_and_the_old_one_stays(
    tmp_path: Path, model: str, target: Any, how: str
) -> None:
    taken, refused = outcomes()
    source = source_of(model, head_file(model, 1))
    publish(tmp_path, head_file(model, 2))
    spoil(Versions(tmp_path).path(1), model, how)
    async with swapping(model, source, tmp_path) as (swapper, engine):
        for _ in range(3):
            await swapper.poll()
        assert engine.model_version == "v1"
        assert outcomes() == (taken, refused + 1)
        expected = guess(source_of(model, head_file(model, 1)), session_of(target, TEXT))  # type: ignore[arg-type]
        assert guess(source, session_of(target, TEXT)) == expected  # type: ignore[arg-type]
        publish(tmp_path, head_file(model, 4))
        await swapper.poll()
        assert engine.model_version == "v4.2"


async def test_a_pointer_that_cannot_be_read_leaves_things_as_they_are(tmp_path: Path, model: str) -> None:
    async with swapping(model, source_of(model, head_file(model, 1)), tmp_path) as (swapper, engine):
        (tmp_path / "current").write_text("soon")
        await swapper.poll()
        assert engine.model_version == "v1"


async def test_a_swap_waits_for_the_round_under_way(tmp_path: Path) -> None:
    from tests.unit.draft.fakes import serving  # noqa: PLC0415
    from tests.unit.draft.sessions import opening  # noqa: PLC0415

    source, order = ScriptedSource(), []
    async with serving(source) as service:
        source.gate.clear()
        await service.engine.take(service.engine.connect(), [opening()])
        await source.entered()
        swap = asyncio.create_task(service.engine.between_rounds(lambda: order.append("swap")))
        await asyncio.sleep(0.05)
        assert order == []
        source.gate.set()
        await swap
        assert order == ["swap"]


def test_a_source_without_a_head_has_no_versions(model: str) -> None:
    with pytest.raises(ConfigError, match="only the sources eagle and medusa"):
        preparing(config(model), model, NgramSource(4, 1), "f")
