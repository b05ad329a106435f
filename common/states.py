"""Hidden states of a sequence's latest positions, as verify sends them and a draft keeps them."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from common.draft_types import HiddenStates
from common.errors import InvalidRequest

MOST_POSITIONS = 256


class StateTail:
    """The states of the latest positions without a gap between them, at most ``MOST_POSITIONS``.

    Attributes:
        end: the position after the last one.
    """

    def __init__(self, width: int) -> None:
        """``width``: layers * hidden size."""
        self._width = width
        self._rows: deque[Tensor] = deque(maxlen=MOST_POSITIONS)
        self.end = 0

    @property
    def first(self) -> int:
        return self.end - len(self._rows)

    def put(self, first_position: int, rows: Tensor) -> None:
        """Take in [positions, width]; what was known of these positions and those after them goes."""
        self.cut(first_position)
        if first_position > self.end:
            self._rows.clear()
        self._rows.extend(rows[-MOST_POSITIONS:].bfloat16().unbind())
        self.end = first_position + len(rows)

    def cut(self, end: int) -> None:
        """Forget all from position ``end`` on."""
        while self._rows and self.end > end:
            self._rows.pop()
            self.end -= 1
        self.end = min(self.end, end) if not self._rows else self.end

    def since(self, position: int) -> Tensor:
        """bfloat16 [end - position, width]; ``position`` is one that is known, or the end."""
        rows = [self._rows[index] for index in range(position - self.first, len(self._rows))]
        return torch.stack(rows) if rows else torch.empty(0, self._width, dtype=torch.bfloat16)

    def message(self, sent: int) -> HiddenStates | None:
        """What is known from position ``sent`` on; None where that is nothing."""
        first = max(sent, self.first)
        if first >= self.end:
            return None
        return HiddenStates(first, self.since(first).view(torch.uint8).numpy().tobytes())

    def take(self, states: HiddenStates, committed: int) -> None:
        """Take in a message of a sequence with ``committed`` tokens.

        Raises:
            InvalidRequest: when it is not of whole positions, or of some that are not committed.
        """
        if len(states.bfloat16) % (2 * self._width):
            raise InvalidRequest("hidden_states are not of whole positions", field="hidden_states")
        rows = torch.frombuffer(bytearray(states.bfloat16), dtype=torch.bfloat16) if states.bfloat16 else None
        if rows is None:
            return
        rows = rows.view(-1, self._width)
        if states.first_position + len(rows) > committed:
            raise InvalidRequest("hidden_states of positions not committed", field="hidden_states")
        self.put(states.first_position, rows)
