"""Medusa: several heads that each guess a token further on, all from one hidden state of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from draft_service.config import Config
from draft_service.heads import running
from draft_service.heads.medusa import MedusaHead
from draft_service.heads.running import Linears, RunningHead
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.growing import Few, Growth
from draft_service.sources.state_reader import StateReader, ready


def make(config: Config, folder: str) -> MedusaSource:
    return MedusaSource(running.load(config, folder, "medusa"))


class MedusaSource(StateReader):
    """Cai et al. 2024. One pass per block, whatever its size; what a head says does not depend on what the
    one before it was taken to say, so a tree of several tokens of each is worth more than a chain.

    Nothing is kept between blocks: of all the target's states only the latest is read. So of text that the
    target has not seen it can say nothing.
    """

    name = "medusa"

    def __init__(self, running_head: RunningHead) -> None:
        super().__init__(running_head)
        assert isinstance(running_head.head, MedusaHead)
        self._head = running_head.head
        self._linears = Linears(running_head)

    def replacement(self, running_head: RunningHead) -> Callable[[], None]:
        head, linears = running_head.head, Linears(running_head)
        assert isinstance(head, MedusaHead) and head.shape == self.shape

        def swap() -> None:
            self._running, self._head, self._linears = running_head, head, linears

        return swap

    @torch.inference_mode()
    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        results: dict[Session, Guess | None] = {s: None if s.assumed else NOTHING for s in sessions}
        known = [session for session in sessions if ready(session) and not session.assumed]
        if known:
            said = self._say(known)
            for index, session in enumerate(known):
                results[session] = _grown(session, said[:, index], self._running.few)
        return [results[session] for session in sessions]

    def close(self, session_id: str) -> None:
        return

    def _say(self, sessions: Sequence[Session]) -> Tensor:
        """Logits of every head, [depth, sessions, head's vocabulary]."""
        states = torch.cat([self._latest(session) for session in sessions])
        embeddings = self._linears.embeddings([session.tokens[-1] for session in sessions])
        features: Tensor = self._head(embeddings, states)
        said = self._linears.logits(features.flatten(0, 1))
        return said.view(*features.shape[:2], -1)

    def _latest(self, session: Session) -> Tensor:
        assert session.states is not None
        return self._states_since(session, session.states.end - 1)


def _grown(session: Session, said: Tensor, few: Few) -> Guess:
    """``said``: [depth, tokens of ``few``]."""
    growth = Growth(session, len(said), few)
    growth.plant(said[0])
    while not growth.finished:
        growth.ask(lambda path: said[len(path)])
    return growth.guess()
