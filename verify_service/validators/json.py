"""The beginning of JSON, of a schema where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from common.constraint import Constraint, ConstraintKind
from verify_service.validators import fences
from verify_service.validators.base import only, stays, whole
from verify_service.validators.fences import Span
from verify_service.validators.growing import GrowingText
from verify_service.validators.spelling import Spelled

_NAMES = frozenset({"json"})
_WHITE = " \t\r\n"


class Json:
    """Options: ``schema``, a JSON schema, whose properties come in its order; ``whole``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        only(options, "schema", "whole")
        self._whole = whole(options)
        schema = options.get("schema", "{}")
        self._text = GrowingText(
            Constraint(ConstraintKind.JSON_SCHEMA, schema, "speculation.validators.json.schema")
        )

    def longest(self, text: str, start: int, ends: Sequence[int]) -> int:
        for span in self._spans(text):
            if span.end <= start:
                continue
            limit = self._limit(text[span.start : span.end], max(start - span.start, 0))
            if limit is not None:
                return stays(ends, span.start + limit)
        return len(ends)

    def _spans(self, text: str) -> Iterable[Span]:
        return [Span(0, len(text))] if self._whole else fences.code(text, _NAMES)

    def _limit(self, body: str, committed: int) -> int | None:
        """Where in the drafted part of ``body`` it ceases to be a beginning; None: nowhere."""
        value = body.lstrip(_WHITE)
        before = len(body) - len(value)
        spelled = Spelled(value)
        encoded, known = spelled.text.encode(), spelled.text[: spelled.known(committed - before)]
        length, complete = self._text.allowed(encoded, len(known.encode()))
        good = len(encoded[:length].decode(errors="ignore"))
        rest = spelled.text[good:]
        if complete:
            rest = rest.lstrip(_WHITE)
        limit = before + spelled.place(len(spelled.text) - len(rest))
        return limit if rest and limit >= committed else None
