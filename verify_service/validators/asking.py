"""Questions to validators, answered in time or not."""

from __future__ import annotations

import asyncio
import time
from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass

from verify_service.validators.answer import Asked, Path, Vetted
from verify_service.validators.client import Answer, Client, Task
from verify_service.validators.patience import Patience

_START_SECONDS = 10.0


@dataclass(slots=True, eq=False)
class Question:
    """How much of each path may stay, as one validator has it.

    Attributes:
        answer: None: it was not asked.
    """

    vetted: Vetted
    asked: Asked
    paths: Sequence[Path] = ()
    answer: Future[Answer | None] | None = None

    @property
    def in_time(self) -> bool:
        return self.answer is not None and self.answer.done()

    @property
    def said(self) -> Answer:
        """Of an answer in time: nothing where the worker died of it."""
        return (self.answer and self.answer.result()) or {}

    @property
    def longest(self) -> list[int] | None:
        """Of an answer in time; None: the validator failed."""
        return self.said.get("longest")


class Asking:
    """Late is a validator that itself takes longer than all questions of a step together may."""

    def __init__(self) -> None:
        self._client = Client()
        self._patience = Patience()
        self._pending: list[Question] = []
        self._forgotten: list[str] = []
        self._behind = False

    async def begin(self, vetted: Vetted) -> None:
        """Have the validators of an answer made before its first block comes."""
        await self._client.started(_START_SECONDS)
        if self._client.ready:
            self._ask([Question(vetted, asked) for asked in vetted.asked])

    def forget(self, vetted: Vetted) -> None:
        self._forgotten += [asked.key for asked in vetted.asked]

    async def ask(self, questions: Sequence[Question], seconds: float) -> None:
        """Wait at most so long for the answers. One that is not there keeps the worker busy, or waits behind
        one that does; while it does, nothing more is asked."""
        deadline = time.monotonic() + seconds
        if not await self._reached(seconds):
            return
        self._ask([each for each in questions if self._patience.allows(each.asked.choice)])
        answers = [each.answer for each in questions if each.answer]
        if answers:
            await asyncio.wait(answers, timeout=max(deadline - time.monotonic(), 0))
        self._look_back(seconds)
        self._behind = bool(self._pending)

    async def _reached(self, seconds: float) -> bool:
        """Whether the worker has time. One that hangs is replaced."""
        self._look_back(seconds)
        if not self._client.ready:
            return False
        hung = self._client.hung
        self._behind = not await self._client.idle(seconds if hung or not self._behind else 0)
        if not self._behind:
            return self._client.ready
        if hung and self._client.hung:  # still, after what it may have said meanwhile was read
            self._client.kill()
        return False

    def _look_back(self, budget: float) -> None:
        """What the worker died of, or was killed for, is the first that it did not answer."""
        done = [question for question in self._pending if question.in_time]
        self._pending = [question for question in self._pending if not question.in_time]
        fatal = [question for question in done if not question.said]
        if fatal:
            self._patience.hung(fatal[0].asked.choice)
        for question in done:
            if not question.paths or question.longest is None:
                continue
            if question.said["seconds"] > budget:
                self._patience.late(question.asked.choice)
            else:
                self._patience.answered(question.asked.choice)

    def _ask(self, questions: Sequence[Question]) -> None:
        forgotten, self._forgotten = self._forgotten, []
        answers = self._client.ask([self._task(each) for each in questions], forgotten)
        for question, answer in zip(questions, answers, strict=True):
            question.answer = answer
            self._pending.append(question)

    def _task(self, question: Question) -> Task:
        """With what the worker does not know yet."""
        asked, text = question.asked, question.vetted.text.text
        task: Task = {"key": asked.key}
        if asked.life != self._client.life:
            asked.life, asked.known = self._client.life, 0
            task["make"] = (asked.choice.name, dict(asked.choice.options))
        task["add"] = text[asked.known :]
        asked.known = len(text)
        task["paths"] = [(path.text, path.ends) for path in question.paths]
        return task

    async def close(self) -> None:
        await self._client.close()
