"""Asks for blocks that are only looked at."""

from __future__ import annotations

from verify_service.drafts.control.base import Choice, Outcome, State


class Watching:
    """Of a session in shadow: always a chain of full size, never waited for."""

    def choose(self, state: State) -> Choice:
        return Choice(state.block_size, probe=True)

    def observe(self, outcome: Outcome) -> None:
        pass

    def close(self) -> None:
        pass
