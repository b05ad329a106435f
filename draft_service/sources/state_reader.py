"""What sources with a head on the target's hidden states have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Tensor

from draft_service.heads import running
from draft_service.heads.running import RunningHead
from draft_service.heads.shape import Shape
from draft_service.session import Session
from draft_service.sources.base import Guess


class StateReader(ABC):
    """Says which hidden states it reads, and reads them. Its head may be replaced."""

    name: str

    def __init__(self, running_head: RunningHead) -> None:
        self.hidden_layers = running_head.shape.layers
        self.hidden_size = running_head.shape.hidden
        self._running = running_head

    @property
    def model_version(self) -> str:
        return self._running.version

    @property
    def shape(self) -> Shape:
        return self._running.shape

    @abstractmethod
    def replacement(self, running_head: RunningHead) -> Callable[[], None]:
        """Make ready to run another head of the same shape, which takes time and may be done in any thread.

        What is returned puts it in place, between two rounds; sessions go on, with nothing that the one
        before had said.
        """

    @abstractmethod
    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]: ...

    @abstractmethod
    def close(self, session_id: str) -> None: ...

    def _states_since(self, session: Session, position: int) -> Tensor:
        """Of a session that is ready: what the head reads, [positions, layers * hidden]."""
        assert session.states is not None
        states = session.states.since(position)
        return running.pick_layers(states, session.hidden_layers, self.hidden_layers, self.hidden_size)


def ready(session: Session) -> bool:
    """Whether the states of all committed tokens but the last, which the target has not run, are there."""
    states = session.states
    return states is not None and states.first < states.end == session.num_committed - 1
