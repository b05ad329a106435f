"""The block size that was configured or asked for, always."""

from __future__ import annotations

from verify_service.drafts.control.base import Choice, Outcome, State


class Fixed:
    """Every session is its own controller's equal: there is nothing to remember."""

    def controller(self) -> Fixed:
        return self

    def observe_pass(self, rows: int, seconds: float) -> None:
        return

    def choose(self, state: State) -> Choice:
        return Choice(state.block_size, state.tree_width)

    def observe(self, outcome: Outcome) -> None:
        return

    def close(self) -> None:
        return
