"""Steps on a simulated clock: controllers against costs and drafts of every kind."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from verify_service.drafts.control.base import NOTHING, Choice, Controller, Outcome, Place, Policy, State

Rate = Callable[[int, int], float]
"""The probability that a guess stands, given those before it: of a depth, at a number of tokens."""

PASS = 0.010


def flat(rows: float) -> float:
    """A pass on an accelerator that waits for memory: rows are nearly free."""
    return PASS * (1 + 0.02 * (rows - 1))


def steady(rows: float) -> float:
    """About the int4 rows of the two-core machine: three more rows cost a quarter."""
    return PASS * (1 + 0.09 * (rows - 1))


def steep(rows: float) -> float:
    """Rows cost nearly as much as passes."""
    return PASS * (0.4 + 0.6 * rows)


def in_tiles(rows: float) -> float:
    """A kernel that works on eight rows at a time."""
    return PASS * (0.8 + 0.2 * -(-rows // 8))


@dataclass
class World:
    """
    Attributes:
        cost: seconds of a pass by its rows.
        rate: by session.
        delay: seconds that a step waits for a block of a size.
        says: the probability that the draft has anything to say.
        source: who guesses, at a number of tokens.
    """

    cost: Callable[[float], float]
    rate: Callable[[int], Rate]
    delay: Callable[[int], float] = lambda size: 0.0
    says: float = 1.0
    source: Callable[[int], str] = lambda position: "source"
    noise: float = 0.03


@dataclass
class Session:
    controller: Controller
    rate: Rate
    choice: Choice = NOTHING
    position: int = 0
    chosen: list[tuple[int, Choice]] = field(default_factory=list)

    def share_on(self, first: int, last: int) -> float:
        """Of the decisions between two positions, those for a block that is used."""
        between = [choice for position, choice in self.chosen if first <= position < last]
        return sum(choice.block_size > 0 and not choice.probe for choice in between) / len(between)


@dataclass
class Run:
    """What happened, step by step: the time it was and the tokens there were, all sessions together."""

    sessions: list[Session]
    times: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def speed(self, first: int = 0, last: int = -1) -> float:
        """Tokens per second between two steps."""
        return (self.tokens[last] - self.tokens[first]) / (self.times[last] - self.times[first])


def simulate(
    policy: Policy, world: World, *, sessions: int = 1, steps: int = 600, most: int = 8, seed: int = 1
) -> Run:
    chance = random.Random(seed)
    run = Run([Session(policy.controller(), world.rate(index)) for index in range(sessions)])
    now, tokens = 0.0, 0
    for _ in range(steps):
        used = [s.choice.block_size for s in run.sessions if not s.choice.probe]
        came = [size if chance.random() < world.says else 0 for size in used]
        rows = sessions + sum(came)
        waited = max((world.delay(size) for size in used if size), default=0.0)
        seconds = world.cost(rows) * chance.uniform(1 - world.noise, 1 + world.noise)
        policy.observe_pass(rows, seconds)
        now += seconds + waited
        sizes = iter(came)
        for session in run.sessions:
            offered = 1 if session.choice.probe else next(sizes)
            tokens += _step(session, world, offered, chance)
            session.choice = session.controller.choose(
                State("source", most, 1, batch=sessions, position=session.position)
            )
            session.chosen.append((session.position, session.choice))
        run.times.append(now)
        run.tokens.append(tokens)
    return run


def _step(session: Session, world: World, offered: int, chance: random.Random) -> int:
    """Judge a session's block and tell its controller; the tokens it got."""
    choice, position = session.choice, session.position
    stood = 0
    while stood < offered and chance.random() < session.rate(stood, position + stood):
        stood += 1
    if choice.block_size:
        places = _places(choice, offered, stood, world.source(position))
        session.controller.observe(Outcome(choice, offered, places, world.delay(choice.block_size)))
    gained = 1 if choice.probe else stood + 1
    session.position += gained
    return gained


def _places(choice: Choice, offered: int, stood: int, source: str) -> list[Place]:
    places = [Place(depth, source, 1, 0) for depth in range(stood)]
    if stood < offered:
        places.append(Place(stood, source, 1, None))
    elif offered < choice.block_size:
        places.append(Place(stood, source, 0, None))
    return places


@dataclass(frozen=True)
class Always:
    """A fixed block size, none included."""

    block_size: int

    def controller(self) -> Always:
        return self

    def observe_pass(self, rows: int, seconds: float) -> None:
        return

    def choose(self, state: State) -> Choice:
        return Choice(self.block_size)

    def observe(self, outcome: Outcome) -> None:
        return

    def close(self) -> None:
        return
