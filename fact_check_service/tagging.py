"""From findings about a text to the verdict on the block at its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

from common.errors import InvalidRequest
from common.streams import DraftRecord, Flag, TagRecord
from fact_check_service.checks.base import Finding
from fact_check_service.claims import Verdict
from fact_check_service.sentences import Span


def require_sound(record: DraftRecord) -> None:
    """Raises InvalidRequest for a record whose fields do not fit together."""
    strings = (record.session_id, record.text, record.source)
    numbers = (record.block_id, record.base_length, record.block_start)
    if not all(isinstance(value, str) for value in strings) or not all(isinstance(n, int) for n in numbers):
        raise InvalidRequest("not a draft record: a field of the wrong type", field="payload")
    bounds = (0, *record.tail_starts, record.block_start, *record.token_ends, len(record.text))
    if any(earlier > later for earlier, later in pairwise(bounds)):
        raise InvalidRequest("not a draft record: its tokens do not follow the text", field="payload")


def tag(record: DraftRecord, findings: Iterable[Finding]) -> TagRecord:
    """The contradicted claims that are new, each on the tokens that it covers.

    Those of the block are, those that were begun before it and are whole now, and those of committed text
    that no record held before. A claim at the very end of one could have grown; it is judged in the next.
    """
    flags = tuple(
        flag
        for finding in findings
        if finding.verdict is Verdict.CONTRADICTED
        and finding.claim.span.end >= record.since
        and not _may_be_cut(record, finding.claim.span)
        for flag in _flag(record, finding)
    )
    return TagRecord(record.session_id, record.block_id, record.base_length, flags)


def _may_be_cut(record: DraftRecord, span: Span) -> bool:
    """Whether the claim may have begun before the tail of committed text that the record carries."""
    return span.start == 0 and record.block_start > 0


def _flag(record: DraftRecord, finding: Finding) -> Iterable[Flag]:
    """No flag when the claim covers none of the tokens."""
    span = finding.claim.span
    first, end = _tokens(record, span)
    if first < end:
        yield Flag(first, end, record.text[span.start : span.end], finding.rule, finding.evidence)


def _tokens(record: DraftRecord, span: Span) -> tuple[int, int]:
    """The tokens from the first to past the last that share a character with ``span``, as a flag has them.

    A token without characters holds the first bytes of the character that a later token completes, so
    those in front of the first one belong to it.
    """
    bounds = (*record.tail_starts, record.block_start, *record.token_ends)
    starts = bounds[:-1]
    if not starts or span.end <= starts[0] or span.start >= bounds[-1]:
        return 0, 0
    first = bisect_left(starts, span.start)
    if first == len(starts) or starts[first] > span.start:
        first = max(0, first - 1)
    tail = len(record.tail_starts)
    return first - tail, bisect_left(starts, span.end) - tail
