"""Decides what is done about drafts that do not pay, and when they may come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common.feedback import FeedbackRecord
from router.autopilot.actions import Action, Kind
from router.autopilot.limits import Limits
from router.autopilot.pair import Pair, Rest, Trial, first_of
from router.autopilot.rules import Finding, Trouble, findings, speedup
from router.autopilot.windows import Window, sample_of

_MOST_PAIRS = 1024
_KEPT_ACTIONS = 200
_HOLD_AFTER_HAND = 200
_BETWEEN_TRAININGS = 500
_MOST_PATIENCE = 8

PoolsOf = Callable[[str], Sequence[str]]


class Autopilot:
    """
    Every action is a trial of its kind: blocks are shortened and made long again if that did not help, a
    draft that is set to rest is watched in shadow and comes back when it is better there.

    Args:
        pools_of: the pools that a class may use.
    """

    def __init__(self, pools_of: PoolsOf, limits: Limits = Limits()) -> None:
        self.limits = limits
        self.actions: deque[Action] = deque(maxlen=_KEPT_ACTIONS)
        self._pools_of = pools_of
        self._pairs: dict[tuple[str, str], Pair] = {}
        self._plain: dict[str, Window] = {}
        self._changed: set[tuple[str, str]] = set()

    @property
    def pairs(self) -> Mapping[tuple[str, str], Pair]:
        """By class and pool."""
        return self._pairs

    def plain(self, prompt_class: str) -> Window:
        """The last answers of a class that nobody drafted."""
        return self._plain.get(prompt_class, Window())

    def needs_plain(self, prompt_class: str) -> bool:
        """Whether too few plain answers are known to say what drafts are worth."""
        return self.plain(prompt_class).rated < self.limits.fewest_plain

    def learn(self, record: FeedbackRecord) -> None:
        drafted = first_of(record)
        if drafted is None:
            self._plain_of(record.prompt_class).add(sample_of(record, None, self.limits.fewest_tokens))
            return
        key = (record.prompt_class, drafted.pool)
        if key in self._pairs or len(self._pairs) < _MOST_PAIRS:
            pair = self._pairs.setdefault(key, Pair())
            pair.add(sample_of(record, drafted, self.limits.fewest_tokens), record.shadow)
            self._changed.add(key)

    def decide(self, now_ms: int) -> list[Action]:
        """What to do now, already done as far as plans are concerned."""
        taken = []
        resting = {key for key, pair in self._pairs.items() if pair.rest}
        for key in sorted(self._changed | resting):
            if self._allowed(now_ms) and (action := self._decide(key, now_ms)):
                self.actions.append(action)
                taken.append(action)
        self._changed.clear()
        return taken

    def trainings(self, now_ms: int, taken: Sequence[Action]) -> list[Action]:
        """For which of the drafts that were just given up, or drift in meaning, training is to be asked."""
        given_up = [action for action in taken if action.kind in _GAVE_UP]
        keys = {(action.prompt_class, action.pool): action.reason for action in given_up}
        for key, pair in self._pairs.items():
            drifts = (found for found in self._findings(key) if found.trouble is Trouble.CONSISTENCY)
            drift = next(drifts, None)
            if drift and not pair.asked:
                keys.setdefault(key, str(drift))
        asked = []
        for key, reason in keys.items():
            self._pairs[key].asked = _BETWEEN_TRAININGS
            asked.append(Action(now_ms, Kind.RETRAIN, *key, reason))
        self.actions.extend(asked)
        return asked

    def release(self, prompt_class: str, pool: str, now_ms: int) -> Action | None:
        """Undo what is in force for the pair, and leave it alone for a while. None: nothing is."""
        pair = self._pairs.get((prompt_class, pool))
        if pair is None or not (pair.rest or pair.largest_block):
            return None
        pair.rest, pair.largest_block, pair.trial, pair.rests = None, 0, None, 0
        pair.held = _HOLD_AFTER_HAND
        pair.begin(now_ms)
        action = Action(now_ms, Kind.RELEASE, prompt_class, pool, "by hand")
        self.actions.append(action)
        return action

    def _decide(self, key: tuple[str, str], now_ms: int) -> Action | None:
        pair = self._pairs[key]
        if pair.rest:
            return self._return(key, pair, now_ms)
        if pair.held or pair.used.drafted < self.limits.fewest:
            return None
        found = self._findings(key)
        if not found:
            pair.good = _smoothed(pair.good, pair.used.acceptance)
            pair.rests = 0
        if lost := pair.lost(found):
            return self._give_up(key, pair, lost, now_ms)
        if pair.trial:
            return self._judge_trial(key, pair, now_ms)
        trouble = next((each for each in found if each.trouble is not Trouble.CONSISTENCY), None)
        return self._shrink(key, pair, trouble, now_ms) if trouble else None

    def _findings(self, key: tuple[str, str]) -> list[Finding]:
        return findings(self._pairs[key].used, self.plain(key[0]), self.limits)

    def _give_up(self, key: tuple[str, str], pair: Pair, finding: Finding, now_ms: int) -> Action:
        pair.set_to_rest(finding, now_ms, self.limits)
        awake = [pool for pool in self._pools_of(key[0]) if not self._rests((key[0], pool))]
        kind = Kind.SWITCH if awake else Kind.PLAIN
        return Action(now_ms, kind, *key, str(finding))

    def _return(self, key: tuple[str, str], pair: Pair, now_ms: int) -> Action | None:
        reason = pair.may_return(now_ms, self.limits)
        if not reason:
            return None
        pair.rest = None
        pair.begin(now_ms)
        return Action(now_ms, Kind.RETURN, *key, reason)

    def _shrink(self, key: tuple[str, str], pair: Pair, finding: Finding, now_ms: int) -> Action:
        pair.trial = Trial(pair.used.rate, pair.largest_block)
        pair.largest_block = pair.shorter(finding)
        pair.begin(now_ms)
        return Action(now_ms, Kind.SHRINK, *key, str(finding), pair.largest_block)

    def _judge_trial(self, key: tuple[str, str], pair: Pair, now_ms: int) -> Action | None:
        """Shorter blocks stay where answers are no slower with them; else it is left alone, ever longer."""
        assert pair.trial is not None
        before, rate = pair.trial, pair.used.rate
        pair.trial = None
        if rate is None or before.rate is None or rate >= before.rate:
            return None
        pair.largest_block = before.before
        pair.patience = min(pair.patience + 1, _MOST_PATIENCE)
        pair.held = self.limits.patience * 2**pair.patience
        pair.begin(now_ms)
        reason = f"rate {rate:.3g} tokens/s, {before.rate:.3g} before"
        return Action(now_ms, Kind.GROW, *key, reason, pair.largest_block)

    def _rests(self, key: tuple[str, str]) -> bool:
        return key in self._pairs and self._pairs[key].rest is not None

    def _allowed(self, now_ms: int) -> bool:
        last_minute = sum(now_ms - action.at_ms < 60_000 for action in self.actions)
        return last_minute < self.limits.actions_per_minute

    def _plain_of(self, prompt_class: str) -> Window:
        if prompt_class not in self._plain and len(self._plain) >= _MOST_PAIRS:
            return Window()
        return self._plain.setdefault(prompt_class, Window())

    def compared(self, prompt_class: str, pool: str) -> float | None:
        """The rate with the pool beside that without drafts; None: not known."""
        pair = self._pairs.get((prompt_class, pool))
        found = speedup(pair.used, self.plain(prompt_class), self.limits) if pair else None
        return found[0] if found else None

    def export(self) -> dict[str, Any]:
        """What is in force, as JSON has it."""
        in_force = {
            key: pair
            for key, pair in self._pairs.items()
            if pair.rest or pair.largest_block or pair.good is not None
        }
        return {"pairs": [[*key, pair.export()] for key, pair in sorted(in_force.items())]}

    def adopt(self, exported: Mapping[str, Any]) -> None:
        """Another router's, or an earlier life's. What cannot be read is left out."""
        given: dict[tuple[str, str], Mapping[str, Any]] = {}
        for entry in exported.get("pairs", ())[:_MOST_PAIRS]:
            prompt_class, pool, state = entry
            given[prompt_class, pool] = state
        for key in self._pairs.keys() | given.keys():
            _adopt(self._pairs.setdefault(key, Pair()), given.get(key, {}))


_GAVE_UP = (Kind.SWITCH, Kind.PLAIN)


def _adopt(pair: Pair, state: Mapping[str, Any]) -> None:
    rest = state.get("rest")
    pair.rest = Rest(*rest) if rest else None
    pair.largest_block = state.get("largest_block", 0)
    pair.good = state.get("good", pair.good)
    pair.rests = state.get("rests", 0)
    since_ms = state.get("since_ms", 0)
    if since_ms > pair.since_ms:
        pair.since_ms = since_ms
        pair.used, pair.watched = pair.used.since(since_ms), pair.watched.since(since_ms)


def _smoothed(known: float | None, value: float | None) -> float | None:
    if value is None or known is None:
        return value if known is None else known
    return known + (value - known) / 10
