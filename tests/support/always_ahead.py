"""Drafting ahead whether it pays or not."""

from __future__ import annotations

from verify_service.drafts.ahead import AheadPolicy


class AlwaysAhead(AheadPolicy):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._always = most

    @property
    def blocks(self) -> int:
        return self._always
