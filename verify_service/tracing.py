"""How an answer came to be, noted step by step for whoever asked for it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from common import trees
from common.draft_types import Block
from common.streams import Flag
from common.trace import Fate, TraceFlag, TraceGuess, TraceStep, TraceTimes
from verify_service.acceptance.target import TargetRows, Verdict

MOST_STEPS = 1024
MOST_GUESSES = 8192
_LONGEST_VERSION = 64


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The target's probability of each guess that it was asked about, and of the token after those that
    stand, which ``verdict`` names. A guess below one that fell was not asked about."""

    verdict: Verdict
    guesses: Mapping[int, float]
    token: float


def beliefs(target: TargetRows, block: Block, verdict: Verdict) -> Beliefs:
    following = trees.children(block.tree)
    guesses: dict[int, float] = {}
    for row in (0, *(node + 1 for node in verdict.nodes)):
        p = target.belief(row)
        guesses |= {node: float(p[block.token_ids[node]]) for node in following[row]}
    return Beliefs(verdict, guesses, float(p[verdict.token]))


@dataclass(frozen=True, slots=True)
class Pass:
    """Of one pass, in seconds as ``TraceTimes`` has them: what all answers in it share."""

    wait: float
    model: float
    accept: float
    batch: int
    rows: int

    @property
    def seconds(self) -> float:
        return self.wait + self.model + self.accept


@dataclass(slots=True)
class _Offered:
    """A block as it came; ``standing``: its guesses that may still be verified, by place; ``fates``: what
    became of the others."""

    block: Block
    round_trip: float
    standing: list[int]
    fates: dict[int, Fate] = field(default_factory=dict)
    flags: tuple[TraceFlag, ...] = ()

    def keep(self, nodes: Seq[int], fate: Fate) -> None:
        """Of the standing ones these, by their places among them; ``fate`` is that of the others."""
        kept = [self.standing[node] for node in nodes]
        self.fates |= dict.fromkeys(set(self.standing) - set(kept), fate)
        self.standing = kept


class Recorder:
    """Of one answer: at most ``MOST_STEPS`` steps with ``MOST_GUESSES`` guesses in all; the rest is counted.

    A block that is there is offered; what thins it out is told in the order in which that happens.
    """

    def __init__(
        self, token_text: Callable[[int], bytes], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.dropped = 0
        self._text = token_text
        self._clock = clock
        self._taken_at = clock()
        self._steps = self._guesses = 0
        self._to_come: _Offered | None = None
        self._current: _Offered | None = None

    def offer(self, block: Block, sure: Seq[int], round_trip: float) -> None:
        """A block has come, of which ``sure`` are sure enough; it takes the place of an earlier one."""
        self._to_come = _Offered(block, round_trip, list(range(len(block.token_ids))))
        self._to_come.keep(sure, Fate.UNSURE)

    def narrow(self, nodes: Seq[int]) -> None:
        """Validators let these pass, of those that were left."""
        if self._to_come:
            self._to_come.keep(nodes, Fate.INVALID)

    def begin(self, length: int) -> None:
        """A pass takes the block that is there, if it follows the first ``length`` tokens; a later one comes
        too late for it."""
        fits = self._to_come is not None and self._to_come.block.base_length == length
        self._current, self._to_come = self._to_come if fits else None, None

    def flag(self, flags: Seq[Flag]) -> None:
        """A fact check has raised these on the block."""
        if self._current:
            self._current.flags = tuple(
                TraceFlag(f.first_token, f.end_token, f.text, f.rule, f.evidence) for f in flags
            )

    def veto(self, length: int) -> None:
        """Of the guesses that are left only the first ``length`` may be verified."""
        if self._current:
            self._current.keep(range(length), Fate.VETOED)

    def step(
        self, first_token: int, delivered: Seq[int], verified: int, believed: Beliefs, shared: Pass
    ) -> TraceStep | None:
        """The pass has delivered tokens, after looking at the first ``verified`` guesses that were left.

        None: the trace is full.
        """
        offered, self._current = self._current, None
        count = len(offered.block.token_ids) if offered else 0
        if self._steps >= MOST_STEPS or self._guesses + count > MOST_GUESSES:
            self.dropped += 1
            return None
        self._steps += 1
        self._guesses += count
        decided = [*(believed.guesses[node] for node in believed.verdict.nodes), believed.token]
        block = offered.block if offered else None
        return TraceStep(
            first_token=first_token,
            texts=tuple(map(self._text, delivered)),
            p=tuple(decided[: len(delivered)]),
            times=TraceTimes(
                started=self._clock() - self._taken_at,
                wait=shared.wait,
                model=shared.model,
                accept=shared.accept,
                drafting=block.drafting_seconds if block else 0.0,
                round_trip=offered.round_trip if offered else 0.0,
            ),
            batch=shared.batch,
            rows=shared.rows,
            guesses=self._judged(offered, verified, len(delivered), believed),
            model_version=_printable(block.model_version) if block else "",
            ahead=bool(block and block.assumed),
            flags=offered.flags if offered else (),
        )

    def _judged(
        self, offered: _Offered | None, verified: int, delivered: int, believed: Beliefs
    ) -> tuple[TraceGuess, ...]:
        if offered is None:
            return ()
        offered.keep(range(verified), Fate.UNVERIFIED)
        block, fates = offered.block, dict(offered.fates)
        tree, depths = block.tree, trees.depths(block.tree)
        p: dict[int, float] = {}
        for node, place in enumerate(offered.standing):
            if node not in believed.guesses or depths[place] >= delivered:
                fates[place] = Fate.UNREACHED
                continue
            fates[place] = Fate.ACCEPTED if node in believed.verdict.nodes else Fate.REJECTED
            p[place] = believed.guesses[node]
        return tuple(
            TraceGuess(
                token_id,
                self._text(token_id),
                tree[place],
                block.source_of(place),
                fates[place],
                q=_q(block, place),
                p=p.get(place),
                confidence=_number(block.confidences, place),
            )
            for place, token_id in enumerate(block.token_ids)
        )


def _q(block: Block, place: int) -> float | None:
    if not block.distributions:
        return _number(block.probabilities, place)
    distribution = block.distributions[place]
    known = dict(zip(distribution.token_ids, distribution.probabilities, strict=True))
    return known.get(block.token_ids[place], 0.0)


def _number(values: Seq[float], place: int) -> float | None:
    """What a draft says, if it is one."""
    return values[place] if values and math.isfinite(values[place]) else None


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text[:_LONGEST_VERSION]))
