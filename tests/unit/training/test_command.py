"""``python -m training`` from prompts to a head that the draft service loads."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from common.model import store
from common.model.runner import ModelRunner
from common.model.tokenizer import Tokenizer
from draft_service.config import Config
from draft_service.heads import files, running
from tests.support.models import reference_greedy, save_tiny, tiny_model
from training import __main__ as command
from training import answers, generation
from training.generation import Generator, Task, read_prompts


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", seed=4)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The command says how many threads torch has."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["training", *map(str, arguments)])
    command.main()


def _prompts(folder: Path) -> Path:
    prompts = folder / "prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt": f"tell me {word}"}) for word in ("a", "b", "c")))
    return prompts


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", ["eagle", "medusa"])
def test_from_prompts_to_a_head_that_the_draft_service_loads(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prompts = _prompts(tmp_path)
    data = ["--model", model, "--work", tmp_path / "work", "--threads", 1, "--prompts", prompts]
    made = ["--generate", 1500, "--answer-tokens", 40, "--at-once", 4, "--layers", 1, 2]
    head = ["--kind", kind, "--vocabulary", 48, "--window", 16]
    training = ["--length", 24, "--batch", 4, "--precision", "float32", "--measure-every", 3]
    run(monkeypatch, *data, *made, *head, *training, "--steps", 4)
    out = tmp_path / "work" / f"{kind}.safetensors"
    loaded = running.load(Config(model=model, head=str(out)), store.resolve(model), kind)  # type: ignore[arg-type]
    assert loaded.shape.layers == (1, 2)
    assert loaded.few.size == 64
    written = answers.load(tmp_path / "work" / "answers.npz")
    assert written.answer_tokens >= 1500
    first = files.load(out).weights
    further = tmp_path / "further"
    again = [*data[:2], "--work", further, *data[4:6], "--answers", tmp_path / "work" / "answers.npz"]
    run(monkeypatch, *again, *training, "--steps", 2, "--resume-from", out, "--kind", kind, "--out", out)
    more = running.load(Config(model=model, head=str(out)), store.resolve(model), kind)  # type: ignore[arg-type]
    assert more.shape == loaded.shape
    moved = (files.load(out).weights["join.weight"].float() - first["join.weight"].float()).abs().max()
    assert 0 < float(moved) < 0.1


@pytest.mark.usefixtures("one_thread")
def test_answers_that_were_made_when_it_is_told_to_stop_are_kept_and_added_to(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "answers.npz"
    arguments = ["--model", model, "--work", tmp_path, "--threads", 1, "--answer-tokens", 20, "--generate"]
    monkeypatch.setattr(command, "_SAVE_EVERY_SECONDS", 0)

    def stop_when_some_are_saved() -> None:
        while not made.is_file():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop_when_some_are_saved, daemon=True)
    stopper.start()
    run(monkeypatch, *arguments, 10_000_000, "--prompts", _prompts(tmp_path), "--synthetic", 0)
    stopper.join()
    kept = answers.load(made).answer_tokens
    assert 0 < kept < 10_000_000
    assert f"stopped, to be resumed; {kept} answer tokens are in {made}" in capsys.readouterr().out


def test_a_generator_that_is_told_to_stop_has_its_slots_again() -> None:
    stop = threading.Event()
    runner = ModelRunner(tiny_model(2), generation.blocks_needed(2, 10))
    generator = Generator(runner, {1}, at_once=2, max_tokens=10, seed=0, stop=stop)

    def stopping() -> Iterator[Task]:
        yield Task([3, 5], 0.0)
        yield Task([9], 0.0)
        stop.set()
        yield Task([7], 0.0)

    assert len(list(generator.answers(stopping()))) < 3
    stop.clear()
    assert len(list(generator.answers(iter([Task([3, 5], 0.0), Task([9], 0.0)])))) == 2


def test_with_nothing_to_train_on_it_says_what_is_missing(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="nothing to train on"):
        run(monkeypatch, "--model", model, "--work", tmp_path)


def test_a_prompt_file_without_prompts_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"question": "why?"}\n{"answer": "because"}\n')
    with pytest.raises(ValueError, match=r"prompts.jsonl:2 has none of the fields prompt"):
        read_prompts([path])


def test_the_targets_own_prompts_begin_as_a_users_turn_does_with_the_openings_in_turn(model: str) -> None:
    folder = store.resolve(model)
    tokenizer = Tokenizer(store.load_tokenizer(folder), store.eos_token_ids(folder))
    begun = list(itertools.islice(generation.user_turns(tokenizer, ["sum up: ", "who "]), 4))
    text = [tokenizer.decode(task.prompt) for task in begun]
    assert [shown.removeprefix("user: ") for shown in text] == ["sum up: ", "who "] * 2
    assert {task.temperature for task in begun} == {1.0}


def test_greedy_answers_are_those_of_the_target_whatever_runs_beside_them() -> None:
    prompts = [[3, 5], [9], [7, 7, 7, 2], [30, 31, 4]]
    runner = ModelRunner(tiny_model(2), generation.blocks_needed(2, 10))
    generator = Generator(runner, {1}, at_once=2, max_tokens=10, seed=0)
    mixed = [Task(prompt, temperature) for prompt in prompts for temperature in (0.0, 1.0)]
    found = {
        tuple(task.prompt): text for task, text in generator.answers(iter(mixed)) if not task.temperature
    }
    for prompt in prompts:
        expected = reference_greedy(tiny_model(2, attention="sdpa"), prompt, 10)
        end = expected.index(1) + 1 if 1 in expected else 10
        assert found[tuple(prompt)] == expected[:end]


def test_joined_answers_are_the_rows_of_both_and_a_cut_keeps_whole_rows() -> None:
    one = answers.gather([[1, 2, 3], [4, 5]], [1, 1], [0.0, 1.0])
    other = answers.gather([[6, 7, 8, 9]], [2], [0.7])
    both = answers.join([one, other])
    assert [both.row(index) for index in range(3)] == [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    assert both.answer_tokens == 2 + 1 + 2
    assert np.allclose(both.temperatures, [0, 1, 0.7])
    assert len(both.first(8)) == 2
    assert len(both.first(9)) == 3
