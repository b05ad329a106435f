"""Rounds of fine-tuning: each begins with the current version and may end with a new one."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from redis.exceptions import RedisError

from common import logging
from draft_service.heads import files
from draft_service.heads.files import HeadFile
from draft_service.heads.versions import Versions
from training import answers
from training.answers import Answers
from training.online import metrics, tuning
from training.online.buffer import Buffer
from training.online.publishing import Gate, Verdict
from training.online.traffic import Traffic
from training.online.trigger import Reason, Requests, Thresholds, due
from training.online.tuning import Material, Tuned, Tuning
from training.target import Target

_POLL_SECONDS = 2.0
_STATE, _ROUND, _NOTE = "state.json", "round", "round.json"

log = logging.get("worker")

Tune = Callable[[HeadFile, Material, Path, threading.Event], Tuned]


@dataclass(frozen=True, slots=True)
class Round:
    """
    Attributes:
        prompt_class, said, entries: as of ``trigger.Reason``.
        until: the number of the sample after the last one that had come.
        parent: the version it begins as.
    """

    prompt_class: str
    said: str
    entries: tuple[str, ...]
    until: int
    parent: int

    @property
    def reason(self) -> Reason:
        return Reason(self.prompt_class, self.said, tuple(entry.encode() for entry in self.entries))


class Worker:
    """What a round needs is on disk before it begins, so that one that was interrupted goes on."""

    def __init__(
        self,
        buffer: Buffer,
        requests: Requests,
        versions: Versions,
        work: Path,
        *,
        general: Answers,
        size: int,
        tune: Tune,
        settings: Tuning,
        thresholds: Thresholds,
        gate: Gate,
    ) -> None:
        """
        Args:
            versions: with one that is current.
            work: a folder of the worker's own.
            general: answers of all kinds, that must not get worse.
            size: of the target's vocabulary.
        """
        self._buffer = buffer
        self._requests = requests
        self._versions = versions
        self._work = work
        self._general = general
        self._size = size
        self._tune = tune
        self._settings = settings
        self._thresholds = thresholds
        self._gate = gate

    def run(self, stop: threading.Event) -> None:
        """Raises Stopped where a round was interrupted."""
        while not stop.is_set():
            try:
                self.step(stop)
            except (RedisError, OSError) as error:
                log.warning("not now", error=str(error))
            stop.wait(_POLL_SECONDS)

    def step(self, stop: threading.Event) -> Verdict | None:
        """A whole round, if one was begun or is due; its outcome."""
        begun = self._begun() or self._begin()
        if begun is None:
            return None
        found = tuning.load(self._folder)
        start = files.load(self._versions.path(begun.parent))
        tuned = self._tune(start, found, self._folder, stop)
        verdict = self._decide(begun, found, tuned)
        self._end(begun)
        return verdict

    @property
    def _folder(self) -> Path:
        return self._work / _ROUND

    def _begun(self) -> Round | None:
        note = self._folder / _NOTE
        if not note.is_file():
            return None
        found = json.loads(note.read_text())
        return Round(**{**found, "entries": tuple(found["entries"])})

    def _begin(self) -> Round | None:
        """None: nothing is due, or there is too little of it."""
        end = self._buffer.end
        reason = due(end - self._trained(), self._buffer.count, self._requests.open(), self._thresholds)
        if reason is None:
            return None
        entries = tuple(entry.decode() for entry in reason.entries)
        begun = Round(reason.prompt_class, reason.said, entries, end, self._versions.current())
        try:
            found = self._material(reason)
        except ValueError as error:
            metrics.ROUNDS.labels("postponed").inc()
            log.warning("no round", reason=reason.said, because=str(error))
            self._end(begun)
            return None
        log.info("a round begins", reason=reason.said, samples=len(found.traffic), parent=begun.parent)
        self._put_down(begun, found)
        return begun

    def _material(self, reason: Reason) -> Material:
        """Raises ValueError where that is too little."""
        first, kept = self._buffer.kept()
        if kept is None:
            raise ValueError("no samples are kept")
        wanted = _domain(kept, reason.prompt_class, self._trained() - first)
        rest = kept.answers.take(np.flatnonzero(~wanted).tolist())
        domain = kept.take(np.flatnonzero(wanted).tolist())
        return tuning.material(domain, answers.join([self._general, rest]), self._size, self._settings)

    def _put_down(self, begun: Round, found: Material) -> None:
        self._work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._work, prefix=".beginning-") as scratch:
            made = Path(scratch) / _ROUND
            made.mkdir()
            tuning.save(made, found)
            (made / _NOTE).write_text(json.dumps(asdict(begun)))
            made.rename(self._folder)

    def _decide(self, begun: Round, found: Material, tuned: Tuned) -> Verdict:
        verdict = self._gate.judge(tuned.before, tuned.after)
        if verdict.publish and self._versions.current() != begun.parent:
            verdict = Verdict(False, "another version has become current meanwhile")
        self._measure(tuned)
        if verdict.publish:
            card = _card(begun, found, tuned)
            version = self._versions.publish(tuned.head, tuned.file, card)
            metrics.VERSION.set(version.number)
            log.info("a version is published", number=version.number, reason=verdict.reason)
        else:
            log.info("nothing is published", reason=verdict.reason)
        metrics.ROUNDS.labels("published" if verdict.publish else "refused").inc()
        return verdict

    @staticmethod
    def _measure(tuned: Tuned) -> None:
        for head, measured in (("before", tuned.before), ("after", tuned.after)):
            metrics.ACCEPTANCE.labels("traffic", head).set(measured.traffic.rate)
            metrics.ACCEPTANCE.labels("elsewhere", head).set(measured.elsewhere.rate)

    def _end(self, begun: Round) -> None:
        """What the round was about is done with, whatever came of it."""
        self._work.mkdir(parents=True, exist_ok=True)
        made = self._work / f".{_STATE}"
        made.write_text(json.dumps({"trained": begun.until}))
        made.replace(self._work / _STATE)
        self._requests.answered(begun.reason)
        if self._folder.is_dir():
            shutil.rmtree(self._folder)

    def _trained(self) -> int:
        """The number of the first sample that no round has seen."""
        path = self._work / _STATE
        return int(json.loads(path.read_text())["trained"]) if path.is_file() else 0


def _domain(kept: Traffic, prompt_class: str, old: int) -> Any:
    """bool [samples]: of a class all that are kept, of all traffic what is new."""
    if prompt_class:
        return kept.classes == prompt_class
    return np.arange(len(kept)) >= old


def _card(begun: Round, found: Material, tuned: Tuned) -> dict[str, Any]:
    return {
        "reason": begun.said,
        "samples": len(found.traffic),
        "before": _numbers(tuned.before),
        "after": _numbers(tuned.after),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _numbers(measured: tuning.Measured) -> dict[str, dict[str, float]]:
    return {
        "traffic": {"rate": measured.traffic.rate, **measured.traffic.numbers()},
        "elsewhere": {"rate": measured.elsewhere.rate, **measured.elsewhere.numbers()},
    }


def tuner(target: Target, settings: Tuning) -> Tune:
    """What fine-tunes for this target."""

    def run(start: HeadFile, found: Material, work: Path, stop: threading.Event) -> Tuned:
        return tuning.tune(target, start, found, work, tuning=settings, stop=stop)

    return run
