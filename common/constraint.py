"""What a client may hold an answer to, before anybody has looked at it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from common.errors import InvalidRequest

LARGEST_CONSTRAINT_BYTES = 1 << 16


class ConstraintKind(enum.Enum):
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    CHOICE = "choice"
    GRAMMAR = "grammar"


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the whole answer must match.

    Attributes:
        text: a JSON schema, a regular expression, a JSON list of strings, or a grammar in Lark or GBNF.
        field: what the client calls it, for errors.
    """

    kind: ConstraintKind
    text: str
    field: str = "constraint"

    def __post_init__(self) -> None:
        fits = 0 < len(self.text.encode()) <= LARGEST_CONSTRAINT_BYTES
        if not fits:
            rule = f"must be 1 to {LARGEST_CONSTRAINT_BYTES} bytes long"
            raise InvalidRequest(f"{self.field} {rule}", field=self.field)
