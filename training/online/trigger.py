"""When a round begins: after so many samples, or because the autopilot asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from common import streams
from router.store import RETRAIN
from training.online.collector import join_group

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Reason:
    """
    Attributes:
        prompt_class: what the round is for; empty: all traffic.
        said: in words.
        entries: of the stream, that are answered by the round.
    """

    prompt_class: str
    said: str
    entries: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """
    Attributes:
        every: new samples after which a round begins anyway.
        least: samples of a class that a round for it needs.
    """

    every: int = 10_000
    least: int = 200


class Requests:
    """What the autopilot asks for through ``RETRAIN``; it stays asked until a round has answered it."""

    def __init__(self, client: Any, consumer: str, pool: str) -> None:
        """``pool``: whose head this is; requests for others are left aside. Empty: any."""
        self._redis = client
        self._consumer = consumer
        self._pool = pool

    def open(self) -> dict[str, Reason]:
        """By prompt class."""
        join_group(self._redis, RETRAIN)
        found: dict[str, Reason] = {}
        for since in (">", "0"):  # new ones become this consumer's own
            answer = self._redis.xreadgroup(streams.DISTIL_GROUP, self._consumer, {RETRAIN: since}, _AT_ONCE)
            for entry, fields in answer[0][1] if since == "0" and answer else ():
                self._add(found, entry, fields or {})
        return found

    def answered(self, reason: Reason) -> None:
        if reason.entries:
            self._redis.xack(RETRAIN, streams.DISTIL_GROUP, *reason.entries)

    def _add(self, found: dict[str, Reason], entry: bytes, fields: Mapping[bytes, bytes]) -> None:
        pool, name, why = (
            fields.get(key, b"").decode(errors="replace") for key in (b"pool", b"prompt_class", b"reason")
        )
        if not name or (self._pool and pool != self._pool):
            self._redis.xack(RETRAIN, streams.DISTIL_GROUP, entry)
            return
        before = found[name].entries if name in found else ()
        found[name] = Reason(name, f"asked for {name}: {why}", (*before, entry))


def due(
    fresh: int, count: Callable[[str], int], asked: Mapping[str, Reason], thresholds: Thresholds
) -> Reason | None:
    """What a round is to begin for now; None: nothing.

    Args:
        fresh: samples since the last round.
        count: samples of a class that are kept.
    """
    for name, reason in asked.items():
        if count(name) >= thresholds.least:
            return reason
    return Reason("", f"{fresh} new samples") if fresh >= thresholds.every else None
