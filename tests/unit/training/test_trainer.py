"""Training on a tiny target's own answers: it learns, and an interrupted run ends as one that was not."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from draft_service.heads.shape import Kind
from tests.support.heads import VOCABULARY, own_answers, own_states, tiny_parts, tiny_shape, tiny_trainer
from tests.support.models import tiny_model
from training.acceptance import Examiner, greedy_rows
from training.answers import Answers
from training.checkpoints import Checkpoints
from training.losses import DIVERGENCES
from training.states import States

LAYERS = (1, 2)


@pytest.fixture(scope="module")
def target() -> Any:
    return tiny_model(3)


@pytest.fixture(scope="module")
def found() -> Answers:
    return own_answers(tiny_model(3, attention="sdpa"), count=96)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory, target: Any, found: Answers) -> States:
    return own_states(tmp_path_factory.mktemp("states"), target, found, LAYERS)


def nothing() -> dict[str, float]:
    return {}


@pytest.mark.parametrize(("kind", "gain"), [("eagle", 0.1), ("medusa", 0.05)])
@pytest.mark.parametrize("loss", DIVERGENCES)
def test_the_loss_falls_and_more_guesses_stand(
    *, tmp_path: Path, target: Any, found: Answers, states: States, kind: Kind, gain: float, loss: str
) -> None:
    shape = tiny_shape(kind, LAYERS)
    trainer = tiny_trainer(tmp_path, target, found, states, shape, loss=loss)
    examiner = Examiner(found, states, torch.arange(VOCABULARY), length=3, rows=greedy_rows(found, 9))
    parts = tiny_parts(target)
    before = examiner.examine(trainer.head, parts)
    losses = [trainer.step() for _ in range(60)]
    after = examiner.examine(trainer.head, parts)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert after.mean_length > before.mean_length + gain
    assert after.tokens_per_step > before.tokens_per_step


def test_the_terms_that_are_optional_count(
    tmp_path: Path, target: Any, found: Answers, states: States
) -> None:
    shape = tiny_shape("eagle", LAYERS)
    plain = tiny_trainer(tmp_path, target, found, states, shape, feature_weight=0.0).step()
    features = tiny_trainer(tmp_path, target, found, states, shape, feature_weight=1.0).step()
    contrasted = tiny_trainer(
        tmp_path, target, found, states, shape, feature_weight=0.0, contrastive_weight=1.0
    ).step()
    assert features > plain
    assert contrasted > plain


def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_interrupted(
    tmp_path: Path, target: Any, found: Answers, states: States
) -> None:
    shape = tiny_shape("eagle", LAYERS)
    whole = tiny_trainer(tmp_path / "whole", target, found, states, shape, steps=12)
    assert whole.train(nothing, measure_every=5)
    first = tiny_trainer(tmp_path / "parts", target, found, states, shape, steps=12)
    assert not first.train(nothing, measure_every=5, stop_at=7)
    second = tiny_trainer(tmp_path / "parts", target, found, states, shape, steps=12)
    second.resume()
    assert second.progress.step == 7
    assert second.train(nothing, measure_every=5)
    assert second.progress == whole.progress
    for name, weight in whole.head.state_dict().items():
        assert torch.equal(weight, second.head.state_dict()[name]), name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_a_run_that_is_asked_to_stop_saves_where_it_was(
    *, tmp_path: Path, target: Any, found: Answers, states: States, number: signal.Signals, before: Any
) -> None:
    """Also where Ctrl-C is ignored, as a shell has it for what runs in the background."""
    trainer = tiny_trainer(tmp_path, target, found, states, tiny_shape("eagle", LAYERS), steps=50)

    def ask() -> dict[str, float]:
        signal.raise_signal(number)
        return {}

    terminate, interrupt = signal.getsignal(signal.SIGTERM), signal.signal(signal.SIGINT, before)
    try:
        assert not trainer.train(ask, measure_every=3)
        assert signal.getsignal(signal.SIGINT) is before
        assert signal.getsignal(signal.SIGTERM) is terminate
    finally:
        signal.signal(signal.SIGINT, interrupt)
    resumed = tiny_trainer(tmp_path, target, found, states, tiny_shape("eagle", LAYERS), steps=50)
    resumed.resume()
    assert resumed.progress.step == 3


def test_a_checkpoint_that_was_not_finished_is_never_taken_for_one(
    tmp_path: Path, target: Any, found: Answers, states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = tiny_trainer(tmp_path, target, found, states, tiny_shape("eagle", LAYERS), steps=50)
    trainer.train(nothing, measure_every=10, stop_at=2)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("json.dumps", full)
    with pytest.raises(OSError, match="no space left"):
        trainer.train(nothing, measure_every=10, stop_at=4)
    latest = Checkpoints(tmp_path).latest()
    assert latest is not None
    assert [path.name for path in tmp_path.iterdir()] == [latest.name] == ["step-00000002"]
