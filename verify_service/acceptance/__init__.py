"""How a drafted block is judged: pure functions from target probabilities and guesses to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from common.draft_types import Block
from common.types import Mode
from verify_service.acceptance.keyed import accept_keyed
from verify_service.acceptance.rejection import accept_rejection
from verify_service.acceptance.target import TargetRows, Verdict

Acceptance = Callable[[TargetRows, Block, int], Verdict]

ACCEPTANCE: Mapping[Mode, Acceptance] = MappingProxyType(
    {Mode.KEYED: accept_keyed, Mode.REJECTION: accept_rejection}
)

__all__ = ["ACCEPTANCE", "Acceptance", "TargetRows", "Verdict", "accept_keyed", "accept_rejection"]
