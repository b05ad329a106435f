"""What the hub and the controllers tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class State:
    """A session that may ask for a block.

    Attributes:
        source: who would draft it.
        block_size: most guesses that may be asked for, 1 or more.
        tree_width: most guesses that may follow the same text.
        batch: sequences running.
        position: committed tokens.
    """

    source: str
    block_size: int
    tree_width: int
    batch: int
    position: int


@dataclass(frozen=True, slots=True)
class Choice:
    """``block_size`` 0: no block. A ``probe`` is not waited for; it is there to be measured."""

    block_size: int = 0
    tree_width: int = 1
    probe: bool = False


NOTHING = Choice()


@dataclass(frozen=True, slots=True)
class Place:
    """A position that the target came to along a block.

    Attributes:
        depth: guesses between it and the committed text.
        source: who made the first guess there, as ``Block.source_of`` says it.
        guesses: how many guesses the block had for it; 0: the draft had no more.
        accepted: the rank of the one that stood; None: none did.
    """

    depth: int
    source: str
    guesses: int
    accepted: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of what was asked for.

    Attributes:
        offered: guesses that came and were sure enough; None: no block came.
        places: in order of depth; those that were judged.
        waited: seconds by which the block held up its step, or would have; None: that was not seen.
        drafting: seconds that its draft computed.
    """

    choice: Choice
    offered: int | None
    places: Sequence[Place] = ()
    waited: float | None = None
    drafting: float = 0.0

    @property
    def guesser(self) -> str | None:
        """Who the block began with; None: that was not seen, or there was nobody."""
        return self.places[0].source if self.places and self.places[0].guesses else None

    @property
    def accepted(self) -> int:
        return sum(place.accepted is not None for place in self.places)


class Controller(Protocol):
    """Decides for one session how many guesses it asks for.

    What it is told lies in the past: how blocks that were verified fared, and times. The block it decides on
    does not exist yet. So the choice is independent of the guesses and of the noise that will judge them, and
    rejection sampling stays exact whatever the choice is: it is so for every fixed block size, and here the
    size is fixed by what came before.
    """

    def choose(self, state: State) -> Choice: ...

    def observe(self, outcome: Outcome) -> None: ...

    def close(self) -> None:
        """The session is over."""
        ...


class Policy(Protocol):
    """Makes a controller per session; holds what they share."""

    def controller(self) -> Controller: ...

    def observe_pass(self, rows: int, seconds: float) -> None:
        """A pass over ``rows`` tokens, none of them prefill, took so long."""
        ...
