"""Many answers share one worker: nobody is blamed for standing in line, and everybody has a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence as Seq
from typing import cast

import pytest

from common.draft_types import Block
from common.types import SpeculationStats, ValidatorChoice
from tests.support.scripted import CharTokenizer
from tests.support.scripted.target import as_tokenizer
from verify_service.drafts.hub import DraftHub
from verify_service.sequence import Sequence
from verify_service.validators.answer import AnswerText, Asked, Path, Vetted
from verify_service.validators.asking import Asking, Question
from verify_service.validators.client import Answer, Task
from verify_service.validators.patience import MOST_LATE
from verify_service.validators.vetting import Vetting

BUDGET = 0.02
PATHS = [Path((0,), "x", (1,))]


class SlowWorker:
    """Answers so many tasks at once, and the others when it is told to."""

    ready, hung, life = True, False, 1

    def __init__(self, at_once: int, seconds: float) -> None:
        self.at_once = at_once
        self.seconds = seconds
        self.asked: list[str] = []
        self.left: list[asyncio.Future[Answer | None]] = []

    def ask(self, tasks: Seq[Task], forget: Seq[str]) -> list[asyncio.Future[Answer | None]]:
        answers = [asyncio.get_running_loop().create_future() for _ in tasks]
        self.asked += [task["key"] for task in tasks]
        self.left = answers
        self.answer(self.at_once)
        return answers

    def answer(self, count: int) -> None:
        for future in self.left[:count]:
            future.set_result({"longest": [1], "seconds": self.seconds})
        self.left = self.left[count:]

    async def idle(self, seconds: float) -> bool:
        return not self.left


def asking(worker: SlowWorker, monkeypatch: pytest.MonkeyPatch) -> Asking:
    made = Asking()
    monkeypatch.setattr(made, "_client", worker)
    return made


def question(name: str) -> Question:
    vetted = Vetted(AnswerText(as_tokenizer(CharTokenizer()), 0))
    return Question(vetted, Asked(name, ValidatorChoice(name), life=1), PATHS)


@pytest.mark.parametrize(("seconds", "rests"), [(BUDGET / 2, False), (BUDGET * 2, True)])
async def test_only_a_validators_own_time_is_held_against_it(
    seconds: float, rests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = SlowWorker(at_once=1, seconds=seconds)
    asked = asking(worker, monkeypatch)
    for _ in range(MOST_LATE):
        first, second = question("first"), question("second")
        await asked.ask([first, second], BUDGET)
        assert (first.in_time, second.in_time) == (True, False)
        worker.answer(1)
    worker.at_once, worker.asked = 2, []
    again = question("second")
    await asked.ask([again], BUDGET)
    assert worker.asked == ([] if rests else ["second"])


class Drafted:
    """What is looked at of a sequence with one validator."""

    def __init__(self, name: str) -> None:
        asked = [Asked(name, ValidatorChoice("json"), life=1)]
        self.validators = Vetted(AnswerText(as_tokenizer(CharTokenizer()), 0), asked)
        self.tokens: list[int] = []
        self.stats = SpeculationStats()


class Blocks:
    """Stands for the hub: every answer has the same block to come."""

    def __init__(self) -> None:
        self.block = Block(1, 0, (1,))

    def peek(self, sequence: Sequence) -> Block:
        return self.block

    def narrow(self, sequence: Sequence, nodes: Seq[int]) -> None:
        assert list(nodes) == [0]


async def test_where_time_runs_out_every_answer_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, vetting = SlowWorker(at_once=2, seconds=0.0), Vetting(BUDGET, BUDGET)
    monkeypatch.setattr(vetting, "_asking", asking(worker, monkeypatch))
    running = [cast(Sequence, Drafted(name)) for name in "abc"]
    first = []
    for _ in range(6):
        worker.asked = []
        await vetting.vet(running, cast(DraftHub, Blocks()))
        first += worker.asked[:2]
        worker.answer(len(worker.left))
    assert sorted(first) == [*"aaaabbbbcccc"]
