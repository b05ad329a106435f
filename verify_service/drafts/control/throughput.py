"""The block sizes that make the most tokens per second."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from verify_service.drafts.control.base import NOTHING, Choice, Outcome, State
from verify_service.drafts.control.curve import Curve, Shape
from verify_service.drafts.control.probing import Probing
from verify_service.drafts.control.rates import Guess, SessionRates, SourceRates, guesses

_PASS_MEMORY = 100
_HICCUP = 3.0
_WAIT_MEMORY = 50
_REVIEWED = 32  # passes after which the plan is made anew though no block said anything new
_WITHOUT_PLAIN = 96  # passes after which one without guesses is due
_SESSIONS_PER_PASS = 4  # a plan for so many costs little beside a pass; one for more is kept for longer
_LEAST_GAIN = 1.02  # what speculation must bring, for what it costs beside the pass
_MOST_GUESSERS = 16  # of an endpoint that are told apart
_WAIT_STEPS = 50  # waits are told apart by this part of a plain pass


def ever_dearer(rows: float) -> float:
    """The relative cost of a pass before any was measured."""
    return 1 + 0.05 * (rows - 1)


def _ever_later(block_size: float) -> float:
    """The relative wait for blocks that were not asked for of late: a guess takes as long as the next."""
    return block_size


class Throughput:
    """Chooses for all sessions together, once per pass.

    A step of a batch of B sequences takes c(B + x) + w seconds: c is the measured cost of a pass by the rows
    in it, x the guesses in it, and w the longest that it waits for a block. It yields B tokens, one of the
    target's own for each, and the guesses that stand. So with guess g worth e(g), the probability that it
    stands, and n(g) rows, below 1 where drafts often have nothing to say, the tokens per second are

        G(S) = (B + sum of e(g) over S) / (c(B + sum of n(g) over S) + w(S))

    and the best set S of guesses is wanted. For one session without a wait that is Leviathan et al. 2023,
    theorem 3.8, with rates by depth and measured costs; for a batch it is the goodput of Liu et al. 2024,
    "Optimizing speculative decoding for serving large language models using goodput", with a size of its own
    for every session. The gain over no drafts, B / c(B), is marginal by nature: every row that a session adds
    holds up the whole batch.

    The guesses compete for rows by e(g) / n(g), and within a session that does not grow with depth. So for a
    given wait the best set of m guesses is the m best, and all m are tried. The waits that the sources' block
    sizes lead to are tried one by one as a limit on who may take part.

    An endpoint may pool several sources, and who makes a guess is known only when it is made. So rates cannot
    be those of who will guess; they are those of an endpoint's blocks given who began its last one. Sources
    come in runs, as text that one of them can continue mostly goes on to be such; where they do not, rates
    given this one and that are equal and nothing is lost. Whoever guesses next, the mixture is what counts:
    the rates of depths are each given that the guesses before stood, and their product is exact for mixtures.

    What a pass without guesses costs must be known, not inferred: a draft that computes on the same cores
    makes the passes slower that its guesses are in. So when none was seen for long, all go without once.

    As a whole the choice depends on the past only; see ``Controller``.
    """

    def __init__(self, shape: Shape = ever_dearer) -> None:
        """
        Args:
            shape: relative costs of a pass by rows, for those that were not measured of late.
        """
        self._costs = Curve(shape, _PASS_MEMORY, surprise=_HICCUP)
        self._sources: dict[str, dict[str, SourceRates]] = {}
        self._waits: dict[str, Curve] = {}
        self._sessions: dict[ThroughputController, int] = {}
        self._plan: dict[ThroughputController, Choice] = {}
        self._planned_for = 0
        self._stale_at = 0
        self._reviewed_at = 0
        self._passes = 0
        self._plain_due = _WITHOUT_PLAIN

    def controller(self) -> ThroughputController:
        return ThroughputController(self)

    def observe_pass(self, rows: int, seconds: float) -> None:
        self._costs.observe(rows, seconds)
        self._passes += 1
        if rows <= self._planned_for or self._passes > self._plain_due:
            self._plain_due = self._passes + _WITHOUT_PLAIN

    def seconds(self, rows: float) -> float:
        """What a pass of so many rows is believed to take."""
        return self._costs.at(rows)

    def rates(self, endpoint: str, guesser: str) -> SourceRates:
        """Of the endpoint's blocks after one that ``guesser`` began.

        Of all its blocks where that is the endpoint itself, or one name too many: a draft gives any names.
        """
        known = self._sources.setdefault(endpoint, {endpoint: SourceRates()})
        if guesser not in known:
            if len(known) > _MOST_GUESSERS:
                return known[endpoint]
            known[guesser] = SourceRates(like=known[endpoint])
        return known[guesser]

    def wait(self, name: str, block_size: int) -> float:
        """How long a step is believed to wait for such a block, in seconds."""
        return self._wait_curve(name).at(block_size)

    def observe(self, endpoint: str, guesser: str, outcome: Outcome) -> None:
        """``guesser``: who began the block before."""
        if outcome.waited is not None:
            self._wait_curve(endpoint).observe(outcome.choice.block_size, outcome.waited)
        if outcome.offered is not None:
            for rates in {self.rates(endpoint, endpoint), self.rates(endpoint, guesser)}:
                rates.observe(outcome)
            self._reviewed_at = self._stale_at

    def choose(self, session: ThroughputController, batch: int) -> Choice:
        """The session's part of the best set."""
        self._sessions[session] = self._passes
        if session not in self._plan or batch != self._planned_for or self._passes >= self._reviewed_at:
            self._plan, self._planned_for = self._best(batch), batch
            self._stale_at = self._passes + 2 + len(self._plan) // _SESSIONS_PER_PASS
            self._reviewed_at = self._passes + _REVIEWED
        if self._passes == self._plain_due and session.went_without != self._plain_due:
            session.went_without = self._plain_due  # once: passes with prefill are not counted
            return NOTHING
        return self._plan[session]

    def forget(self, session: ThroughputController) -> None:
        self._sessions.pop(session, None)

    def _wait_curve(self, name: str) -> Curve:
        return self._waits.setdefault(name, Curve(_ever_later, _WAIT_MEMORY, scale=0.0))

    def _best(self, batch: int) -> dict[ThroughputController, Choice]:
        """Those take part that asked in this pass or the last."""
        recent = [s for s, last in self._sessions.items() if self._passes - last <= 1]
        offers = sorted(self._offers(recent, self.seconds(batch)), key=lambda offer: -offer.ratio)
        seconds = [self.seconds(batch + rows) for rows in range(len(offers) + 2)]
        best_rate = _LEAST_GAIN * batch / seconds[0]
        best: list[_Offer] = []
        for limit in {offer.wait for offer in offers}:
            within = [offer for offer in offers if offer.wait <= limit]
            rate, count = _best_prefix(within, batch, limit, seconds)
            if rate > best_rate:
                best_rate, best = rate, within[:count]
        return {**dict.fromkeys(recent, NOTHING), **_as_choices(best)}

    def _offers(self, sessions: list[ThroughputController], plain: float) -> Iterator[_Offer]:
        resolution = plain / _WAIT_STEPS
        waits: dict[tuple[str, int], float] = {}
        for session in sessions:
            source, ratio = session.state.source, 1.0
            for size, guess in enumerate(session.guesses(), start=1):
                if (source, size) not in waits:
                    waits[source, size] = resolution * math.ceil(self.wait(source, size) / resolution)
                ratio = min(ratio, guess.worth / guess.rows)
                yield _Offer(session, guess, ratio, waits[source, size])


class ThroughputController:
    """A session's estimates, and what it got of the plan. While that is nothing it probes."""

    def __init__(self, shared: Throughput) -> None:
        self._shared = shared
        self._rates: dict[SourceRates, SessionRates] = {}
        self._guessers: dict[str, str] = {}  # who began the last block, by endpoint
        self._probing = Probing()
        self.went_without = 0
        self.state = State("", 1, 1, 1, 0)

    def choose(self, state: State) -> Choice:
        self.state = state
        choice = self._shared.choose(self, state.batch)
        if choice.block_size:
            self._probing.stop()
        elif self._probing.due(state.position, self._shared.seconds(state.batch) / state.batch):
            return Choice(1, 1, probe=True)
        return replace(choice, block_size=min(choice.block_size, state.block_size))

    def observe(self, outcome: Outcome) -> None:
        if outcome.offered is not None:
            self._own_rates().observe(outcome)
        self._shared.observe(self.state.source, self._guesser, outcome)
        if outcome.guesser is not None:
            self._guessers[self.state.source] = outcome.guesser
        if outcome.choice.probe:
            self._probing.observe(outcome.accepted > 0, outcome.drafting)

    def close(self) -> None:
        self._shared.forget(self)

    def guesses(self) -> list[Guess]:
        """What it could ask for, the best first."""
        return guesses(self._own_rates(), self.state.block_size, self.state.tree_width)

    def _own_rates(self) -> SessionRates:
        shared = self._shared.rates(self.state.source, self._guesser)
        if shared not in self._rates:
            self._rates[shared] = SessionRates(shared, self.state.block_size)
        return self._rates[shared]

    @property
    def _guesser(self) -> str:
        """Who began the endpoint's last block; before there was one, the endpoint."""
        return self._guessers.get(self.state.source, self.state.source)


@dataclass(frozen=True, slots=True)
class _Offer:
    """One more guess of a session.

    Attributes:
        ratio: its worth per row, or that of an earlier one of its session where that is less.
        wait: for a block that holds it, in seconds.
    """

    session: ThroughputController
    guess: Guess
    ratio: float
    wait: float


def _best_prefix(offers: list[_Offer], batch: int, wait: float, seconds: list[float]) -> tuple[float, int]:
    """The best rate and how many of the offers it takes.

    Args:
        seconds: of a pass with 0, 1, 2 … guesses.
    """
    tokens, rows = float(batch), 0.0
    best, count = 0.0, 0
    for taken, offer in enumerate(offers, start=1):
        tokens += offer.guess.worth
        rows += offer.guess.rows
        whole = int(rows)
        time = seconds[whole] + (rows - whole) * (seconds[whole + 1] - seconds[whole])
        rate = tokens / (time + wait)
        if rate > best:
            best, count = rate, taken
    return best, count


def _as_choices(offers: list[_Offer]) -> dict[ThroughputController, Choice]:
    found: dict[ThroughputController, Choice] = {}
    for offer in offers:
        so_far = found.get(offer.session, NOTHING)
        width = max(so_far.tree_width, offer.guess.rank + 1)
        found[offer.session] = Choice(so_far.block_size + 1, width)
    return found
