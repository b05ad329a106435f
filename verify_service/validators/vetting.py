"""Drafted blocks are cut where a validator finds them wrong, in a time that all blocks of a step share."""

from __future__ import annotations

import uuid
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from common.draft_types import Block
from common.types import ValidatorChoice
from verify_service import metrics
from verify_service.drafts.hub import DraftHub
from verify_service.sequence import Sequence
from verify_service.validators import registry
from verify_service.validators.answer import AnswerText, Asked, Path, Vetted
from verify_service.validators.asking import Asking, Question
from verify_service.validators.checks import Checks

OUTCOMES = ("passed", "cut", "failed", "late")


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A block, every path through it, and a question about these for each validator."""

    sequence: Sequence
    vetted: Vetted
    block: Block
    paths: Seq[Path]
    questions: Seq[Question]


class Vetting:
    """Fails open: what no validator speaks of in time stays as it was drafted.

    A cut changes neither a lossless answer nor how likely it is: keyed and greedy acceptance take the
    target's own choice whatever is drafted, and under rejection sampling ``DraftHub`` takes the guesses for
    such answers as one-hot, for which it does not matter why some are left out (``drafts/confidence.py``).
    """

    def __init__(self, budget_seconds: float, check_seconds: float) -> None:
        """
        Args:
            budget_seconds: most time that a step waits for validators.
            check_seconds: most that one validator of a request may take to be made.
        """
        self._budget = budget_seconds
        self._checks = Checks(check_seconds)
        self._asking = Asking()
        self._turn = 0
        for name in registry.known():
            for outcome in OUTCOMES:
                metrics.VALIDATOR_OUTCOMES.labels(name, outcome)

    async def admit(self, choices: Seq[ValidatorChoice], text: AnswerText) -> Vetted | None:
        """None when nothing was chosen.

        Raises:
            InvalidRequest: naming the validator or the option that is wrong.
            Overloaded: when too many wait to be checked.
        """
        if not choices:
            return None
        for choice in choices:
            await self._checks.check(choice)
        name = uuid.uuid4().hex
        vetted = Vetted(text, [Asked(f"{name}:{place}", choice) for place, choice in enumerate(choices)])
        await self._asking.begin(vetted)
        return vetted

    def forget(self, vetted: Vetted) -> None:
        """The answer has ended."""
        self._asking.forget(vetted)

    async def vet(self, running: Seq[Sequence], drafts: DraftHub) -> None:
        """Cut the blocks that are to be verified next. Whoever time does not suffice for comes first then."""
        jobs = [job for sequence in running if (job := _job(sequence, drafts))]
        if not jobs:
            return
        jobs.sort(key=lambda job: job.vetted.turn)
        await self._asking.ask([question for job in jobs for question in job.questions], self._budget)
        for job in jobs:
            if any(question.in_time for question in job.questions):
                self._turn += 1
                job.vetted.turn = self._turn
        vetted = {job.sequence for job in jobs if _cut(job, drafts)}
        for sequence in running:
            if sequence not in vetted and sequence.validators and _to_come(sequence, drafts):
                _count_late(sequence.validators)

    async def close(self) -> None:
        await self._checks.close()
        await self._asking.close()


def _to_come(sequence: Sequence, drafts: DraftHub) -> Block | None:
    block = drafts.peek(sequence)
    fits = block and block.token_ids and block.base_length == len(sequence.tokens)
    return block if fits else None


def _job(sequence: Sequence, drafts: DraftHub) -> _Job | None:
    vetted, block = sequence.validators, _to_come(sequence, drafts)
    if vetted is None or block is None:
        return None
    vetted.text.follow(sequence.tokens)
    paths = vetted.text.paths(block)
    return _Job(sequence, vetted, block, paths, [Question(vetted, asked, paths) for asked in vetted.asked])


def _cut(job: _Job, drafts: DraftHub) -> bool:
    """Leave out what is wrong and what follows it; False: the block is no longer the one to come."""
    if drafts.peek(job.sequence) is not job.block:
        return False
    wrong = {node for question in job.questions for node in _wrong(question)}
    kept: list[int] = []
    for node, parent in enumerate(job.block.tree):
        if node not in wrong and (parent < 0 or parent in kept):
            kept.append(node)
    drafts.narrow(job.sequence, kept)
    cut = len(job.block.token_ids) - len(kept)
    job.sequence.stats.invalid_tokens += cut
    metrics.INVALID_TOKENS.inc(cut)
    return True


def _wrong(question: Question) -> set[int]:
    """The guesses that a validator does not let pass; none where it has said nothing."""
    name = question.asked.choice.name
    if not question.in_time:
        metrics.VALIDATOR_OUTCOMES.labels(name, "late").inc()
        return set()
    longest = question.longest
    if longest is None:
        metrics.VALIDATOR_OUTCOMES.labels(name, "failed").inc()
        return set()
    cuts = zip(question.paths, longest, strict=True)
    wrong = {node for path, length in cuts for node in path.nodes[max(length, 0) :]}
    metrics.VALIDATOR_OUTCOMES.labels(name, "cut" if wrong else "passed").inc()
    return wrong


def _count_late(vetted: Vetted) -> None:
    """A block that came while others were vetted."""
    for asked in vetted.asked:
        metrics.VALIDATOR_OUTCOMES.labels(asked.choice.name, "late").inc()
