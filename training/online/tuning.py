"""One round of fine-tuning: a head, the traffic it is for, and general answers that it must not forget."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from draft_service.heads.files import Head, HeadFile
from draft_service.heads.target import TargetParts, load_parts
from training import answers, states, stopping
from training.acceptance import Acceptance, Examiner
from training.answers import Answers
from training.checkpoints import Checkpoints
from training.online import traffic, vocabulary
from training.online.traffic import Traffic
from training.states import States
from training.target import Target
from training.trainer import Settings, Trainer
from training.windows import Windows

EXAMINED_LENGTH = 5
_FEW_GREEDY = 16
_BATCH = 8
_PROMPT_WEIGHT = 0.3
_TRAFFIC, _GENERAL, _COUNTS = "traffic.npz", "general.npz", "counts.npy"


@dataclass(frozen=True, slots=True)
class Tuning:
    """
    Attributes:
        steps: batches of a round.
        minutes: longest that training may take; 0: no limit.
        length: tokens of a window.
        replayed: general tokens that are trained on, for each of the traffic's.
        measured_rows: most answers that acceptance is measured on, of the traffic and elsewhere.
        most_tokens: of the traffic that is trained on; the latest ones are.
    """

    steps: int = 400
    minutes: float = 0.0
    learning_rate: float = 1e-3
    length: int = 160
    rollout: int = 2
    replayed: float = 1.5
    measured_rows: int = 64
    most_tokens: int = 200_000
    precision: torch.dtype = torch.float32
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Material:
    """What a round trains on and is measured by.

    Attributes:
        traffic: the domain; its held-out rows are those that are measured.
        general: everything else; its held-out rows too.
        counts: int64 [target's vocabulary], tokens of all that the head is to know.
    """

    traffic: Traffic
    general: Answers
    counts: NDArray[np.int64]

    @property
    def answers(self) -> Answers:
        return answers.join([self.traffic.answers, self.general])

    @property
    def traffic_rows(self) -> list[int]:
        return np.flatnonzero(self.traffic.answers.held).tolist()

    @property
    def general_rows(self) -> list[int]:
        return (len(self.traffic) + np.flatnonzero(self.general.held)).tolist()


@dataclass(frozen=True, slots=True)
class Measured:
    """Acceptance on held-out traffic, and on held-out answers of other kinds."""

    traffic: Acceptance
    elsewhere: Acceptance


@dataclass(frozen=True, slots=True)
class Tuned:
    """A new head beside the one it began as."""

    head: Head
    file: HeadFile
    before: Measured
    after: Measured


def material(domain: Traffic, general: Answers, size: int, tuning: Tuning) -> Material:
    """The latest of the traffic and as much general text as is wanted beside it.

    Args:
        size: of the target's vocabulary.

    Raises:
        ValueError: where nothing would be left to train on, or to measure.
    """
    domain = domain.take(_latest(domain.answers, tuning))
    tokens = int(np.diff(domain.answers.offsets)[~domain.answers.held].sum())
    replayed = _some(general, int(tokens * tuning.replayed), tuning)
    found = Material(domain, general.take(replayed), _counted([domain.answers, general], size))
    if not tokens or not found.traffic_rows or not found.general_rows:
        raise ValueError("too few samples: there must be some to train on and some to measure")
    return found


def save(folder: Path, found: Material) -> None:
    traffic.save(folder / _TRAFFIC, found.traffic)
    answers.save(folder / _GENERAL, found.general)
    np.save(folder / _COUNTS, found.counts)


def load(folder: Path) -> Material:
    counts = np.load(folder / _COUNTS)
    return Material(traffic.load(folder / _TRAFFIC), answers.load(folder / _GENERAL), counts)


def _latest(found: Answers, tuning: Tuning) -> list[int]:
    """In order; of those held out no more than are measured."""
    rows, tokens = measured_rows(found, tuning.measured_rows), 0
    for row in np.flatnonzero(~found.held)[::-1].tolist():
        tokens += int(found.offsets[row + 1] - found.offsets[row])
        if tokens > tuning.most_tokens:
            break
        rows.append(row)
    return sorted(rows)


def _some(found: Answers, tokens: int, tuning: Tuning) -> list[int]:
    """Rows of about so many tokens, at random, and those that are measured."""
    rows = measured_rows(found, tuning.measured_rows)
    trained = np.random.default_rng(tuning.seed).permutation(np.flatnonzero(~found.held))
    lengths = np.diff(found.offsets)[trained]
    return sorted([*rows, *trained[np.cumsum(lengths) <= tokens].tolist()])


def measured_rows(found: Answers, most: int) -> list[int]:
    """Held-out rows, from all over: greedy ones, whose guesses are right or wrong; where few are, any."""
    rows = np.flatnonzero(found.held)
    greedy = rows[found.temperatures[rows] == 0]
    found_rows = greedy if len(greedy) >= _FEW_GREEDY else rows
    places = np.linspace(0, len(found_rows) - 1, min(most, len(found_rows)))
    chosen: list[int] = found_rows[places.astype(int)].tolist()
    return chosen


def _counted(parts: list[Answers], size: int) -> NDArray[np.int64]:
    """Of rows that may be trained on; a token that the target does not have is not counted."""
    counts = np.zeros(size, np.int64)
    for part in parts:
        trained = np.repeat(~part.held, np.diff(part.offsets))
        counts += np.bincount(part.tokens[trained], minlength=size)[:size]
    return counts


def tune(
    target: Target, start: HeadFile, found: Material, work: Path, *, tuning: Tuning, stop: threading.Event
) -> Tuned:
    """Fine-tune ``start``; what was interrupted in the folder ``work`` goes on.

    Raises:
        Stopped: when it was asked to stop.
    """
    file = replace(start, vocabulary=vocabulary.adapted(start.vocabulary, found.counts))
    parts = load_parts(target.folder, file.vocabulary, tuning.precision)
    joined = found.answers
    kept = states.of_target(work / "states", target, joined, file, parts, stop=stop)
    teach_published(kept, found.traffic, file.vocabulary)
    own = load_parts(target.folder, start.vocabulary, tuning.precision)
    before = _measured(found, kept, start.module(), start, own)
    head = start.module().train().requires_grad_(True)
    trainer = _trainer(head, joined, kept, parts, tuning, work=work)
    trainer.resume()
    seconds = tuning.minutes * 60 if tuning.minutes else math.inf
    trainer.train(dict, measure_every=tuning.steps, seconds=seconds, stop=stop)
    if stop.is_set():
        raise stopping.Stopped(f"{trainer.progress.step} steps are in {work}")
    return Tuned(head, file, before, _measured(found, kept, head, file, parts))


def _trainer(
    head: Head, found: Answers, kept: States, parts: TargetParts, tuning: Tuning, *, work: Path
) -> Trainer:
    head.norm.copy_(parts.norm)
    windows = Windows(
        found, kept, length=tuning.length, batch=_BATCH, prompt_weight=_PROMPT_WEIGHT, seed=tuning.seed
    )
    settings = Settings(
        steps=tuning.steps,
        rollout=tuning.rollout,
        learning_rate=tuning.learning_rate,
        precision=tuning.precision,
    )
    return Trainer(head, parts, windows, Checkpoints(work / "checkpoints"), settings)


def _measured(found: Material, kept: States, head: Head, file: HeadFile, parts: TargetParts) -> Measured:
    head.norm.copy_(parts.norm)

    def examined(rows: list[int]) -> Acceptance:
        examiner = Examiner(found.answers, kept, file.vocabulary, length=EXAMINED_LENGTH, rows=rows)
        return examiner.examine(head, parts)

    return Measured(examined(found.traffic_rows), examined(found.general_rows))


def teach_published(kept: States, domain: Traffic, tokens: Tensor) -> None:
    """What the serving target published of its answers takes the place of what was computed again.

    Args:
        tokens: int64 [head's vocabulary]; what is not among them cannot be taught.
    """
    places = np.full(int(max(tokens.max(), domain.likeliest.max(initial=0))) + 1, -1)
    places[tokens.numpy()] = np.arange(len(tokens))
    found = places[domain.likeliest]
    probabilities = np.where(found >= 0, domain.probabilities, 0)
    said = probabilities.any(-1)
    where, width = _deciding(domain.answers)[said], found.shape[1]
    kept.likeliest[where, :width] = found[said].clip(0)
    kept.probabilities[where, :width] = probabilities[said]
    kept.probabilities[where, width:] = 0


def _deciding(found: Answers) -> NDArray[np.int64]:
    """The positions after which each token of the answers was chosen."""
    rows = zip(found.offsets[:-1], found.prompt_lengths, found.offsets[1:], strict=True)
    return np.concatenate([np.arange(start + prompt - 1, end - 1) for start, prompt, end in rows])
