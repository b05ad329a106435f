"""The training loop: batches by their number, so that a run that was resumed is the run that was not."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NoReturn

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from tqdm import tqdm

from draft_service.heads.files import Head
from draft_service.heads.target import TargetParts
from training import stopping
from training.checkpoints import Checkpoints, Progress
from training.losses import DIVERGENCES, Taught, contrastive, distilled
from training.rollout import roll_out, targets_of
from training.windows import Batch, Windows

_CONTRASTED = 512
_LEAST_RATE = 0.05  # of the learning rate, at the end


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Attributes:
        steps: batches of the whole run.
        rollout: steps of a head's own features that are trained.
        decay: what a step of the rollout counts relative to the one before.
        loss: a name of ``losses.DIVERGENCES``.
        feature_weight: of the smooth L1 distance between features; 0: none.
        contrastive_weight: 0: none.
        precision: of the matrix products.
    """

    steps: int
    rollout: int = 3
    learning_rate: float = 1e-3
    warmup: int = 50
    decay: float = 0.8
    weight_decay: float = 0.01
    clip: float = 1.0
    loss: str = "kl"
    feature_weight: float = 0.1
    contrastive_weight: float = 0.0
    precision: torch.dtype = torch.float32


class Trainer:
    def __init__(
        self, head: Head, parts: TargetParts, windows: Windows, checkpoints: Checkpoints, settings: Settings
    ) -> None:
        self._head = head
        self._parts = parts
        self._windows = windows
        self._checkpoints = checkpoints
        self._settings = settings
        self._optimizer = torch.optim.AdamW(
            head.parameters(),
            lr=settings.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._progress = Progress(0)

    @property
    def head(self) -> Head:
        return self._head

    @property
    def progress(self) -> Progress:
        return self._progress

    def resume(self) -> None:
        """Go on from the latest checkpoint, where there is one."""
        latest = self._checkpoints.latest()
        if latest:
            self._progress = self._checkpoints.load(latest, self._head, self._optimizer)

    def train(
        self,
        measure: Callable[[], dict[str, float]],
        *,
        measure_every: int,
        stop_at: int | None = None,
        seconds: float = math.inf,
        stop: threading.Event | None = None,
    ) -> bool:
        """Until the last step or until asked to stop; saved at every measurement and at the end.

        Says whether it got to the last step.

        Args:
            stop_at: a step before the last at which to stop.
            seconds: stop after that long.
            stop: what asks it to stop; without it SIGINT and SIGTERM do.
        """
        last = self._settings.steps if stop_at is None else min(stop_at, self._settings.steps)
        deadline = time.monotonic() + seconds
        with (
            nullcontext(stop) if stop else stopping.asked() as asked,
            tqdm(total=self._settings.steps, initial=self._progress.step, desc="train", unit="step") as bar,
        ):
            while self._progress.step < last and not asked.is_set() and time.monotonic() < deadline:
                loss = self.step()
                bar.update()
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                if self._progress.step % measure_every == 0 or self._progress.step == self._settings.steps:
                    self._note({"loss": loss, **measure()}, bar)
            self._save()
        return self._progress.step == self._settings.steps

    def step(self) -> float:
        """One batch; its loss before the weights moved."""
        step = self._progress.step
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.learning_rate * self._rate(step)
        loss = self.loss(self._windows.batch(step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._head.parameters(), self._settings.clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._progress = Progress(step + 1, self._progress.history)
        return loss.item()

    def loss(self, batch: Batch) -> Tensor:
        """The mean over what counts, of all steps of the rollout together."""
        settings, total, counted = self._settings, torch.zeros(()), 0.0
        with torch.autocast("cpu", settings.precision, enabled=settings.precision != torch.float32):
            guesses = roll_out(self._head, self._parts, batch, settings.rollout)
        for step, made in enumerate(guesses):
            where, weights = targets_of(batch, step, settings.rollout)
            chosen = weights > 0
            taught = Taught(
                batch.likeliest[:, where][chosen], batch.probabilities[:, where][chosen], weights[chosen]
            )
            target = batch.hidden[:, where, -made.shape[-1] :][chosen]
            scale = settings.decay**step
            total = total + scale * self._distance(made[chosen], target, taught)
            counted += scale * float(weights.sum())
        return total / max(counted, 1.0)

    def _distance(self, made: Tensor, target: Tensor, taught: Taught) -> Tensor:
        """Of the distributions that features lead to, and of the features themselves."""
        settings = self._settings
        loss = distilled(made, self._parts.head, taught, DIVERGENCES[settings.loss])
        if settings.feature_weight:
            apart = F.smooth_l1_loss(made.float(), target.float(), reduction="none").mean(-1)
            loss = loss + settings.feature_weight * (apart @ taught.weights)
        if settings.contrastive_weight:
            some = slice(None, None, max(1, len(made) // _CONTRASTED))
            strength = settings.contrastive_weight * taught.weights.sum()
            loss = loss + strength * contrastive(made[some], target[some])
        return loss

    def _rate(self, step: int) -> float:
        """Of the learning rate: up in a line, down along a cosine."""
        settings = self._settings
        if step < settings.warmup:
            return (step + 1) / settings.warmup
        done = (step - settings.warmup) / max(settings.steps - settings.warmup, 1)
        return _LEAST_RATE + (1 - _LEAST_RATE) * (1 + math.cos(math.pi * min(done, 1.0))) / 2

    def _note(self, measured: dict[str, float], bar: tqdm[NoReturn]) -> None:
        noted = {"step": float(self._progress.step), **measured}
        self._progress = Progress(self._progress.step, (*self._progress.history, noted))
        bar.write("  ".join(f"{name} {value:.4g}" for name, value in noted.items()))
        self._save()

    def _save(self) -> None:
        self._checkpoints.save(self._head, self._optimizer, self._progress)
