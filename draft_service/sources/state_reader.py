"""What sources with a head on the target's hidden states have in common."""

from __future__ import annotations

from torch import Tensor

from draft_service.heads import running
from draft_service.heads.running import RunningHead
from draft_service.session import Session


class StateReader:
    """Says which hidden states it reads, and reads them."""

    def __init__(self, running_head: RunningHead) -> None:
        self.model_version = running_head.version
        self.hidden_layers = running_head.shape.layers
        self.hidden_size = running_head.shape.hidden
        self._running = running_head

    def _states_since(self, session: Session, position: int) -> Tensor:
        """Of a session that is ready: what the head reads, [positions, layers * hidden]."""
        assert session.states is not None
        states = session.states.since(position)
        return running.pick_layers(states, session.hidden_layers, self.hidden_layers, self.hidden_size)


def ready(session: Session) -> bool:
    """Whether the states of all committed tokens but the last, which the target has not run, are there."""
    states = session.states
    return states is not None and states.first < states.end == session.num_committed - 1
