"""The state of a training run on disk, as safetensors and JSON: nothing that could run code."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from draft_service.heads import files

_PREFIX = "step-"


@dataclass(frozen=True, slots=True)
class Progress:
    """
    Attributes:
        step: batches trained on.
        history: what was measured, each with its step.
    """

    step: int
    history: tuple[dict[str, float], ...] = ()


class Checkpoints:
    """Folders ``step-…``, each made under another name first, so that one is whole or not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest(self) -> Path | None:
        return max(self._folder.glob(f"{_PREFIX}*"), default=None)

    def save(self, head: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> Path:
        """The checkpoints before it go when it is there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self._folder / f"{_PREFIX}{progress.step:08}"
        before = [path for path in self._folder.glob(f"{_PREFIX}*") if path != target]
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".saving-") as scratch:
            made = Path(scratch) / "checkpoint"
            files.write(made / "head.safetensors", {**head.state_dict()})
            files.write(made / "optimizer.safetensors", _flatten(optimizer.state_dict()["state"]))
            state = {"step": progress.step, "history": progress.history}
            (made / "state.json").write_text(json.dumps(state))
            if target.exists():  # of the same step, so with the same content
                shutil.rmtree(target)
            made.rename(target)
        for path in before:
            shutil.rmtree(path)
        return target

    @staticmethod
    def load(path: Path, head: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Into ``head`` and ``optimizer``, which must be made as those that were saved."""
        head.load_state_dict(load_file(path / "head.safetensors"))
        groups = optimizer.state_dict()["param_groups"]
        state = _unflatten(load_file(path / "optimizer.safetensors"))
        optimizer.load_state_dict({"state": state, "param_groups": groups})
        found = json.loads((path / "state.json").read_text())
        return Progress(found["step"], tuple(found["history"]))


def _flatten(state: dict[int, dict[str, Tensor]]) -> dict[str, Tensor]:
    return {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}


def _unflatten(tensors: dict[str, Tensor]) -> dict[int, dict[str, Any]]:
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    return state
