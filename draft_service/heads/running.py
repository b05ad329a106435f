"""A head as a source runs it: few rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import ConfigError
from common.model import linear, store
from common.model.fused.layout import Format
from draft_service.config import Config
from draft_service.heads import files
from draft_service.heads.files import Head, HeadFile
from draft_service.heads.shape import Kind, Shape
from draft_service.heads.target import TargetParts, load_parts
from draft_service.sources.growing import Few

_FORMATS = {"int8": Format.INT8_GROUPED, "int4": Format.INT4}
_SHIPPED = Path(__file__).parents[1] / "weights"


@dataclass(slots=True, eq=False)
class RunningHead:
    """
    Attributes:
        vocabulary: int64 [head's vocabulary], the token ids that its logits are of.
        version: what it is called in answers.
        weights: of what is made of it to be run: float32, int8 or int4.
    """

    head: Head
    parts: TargetParts
    vocabulary: Tensor
    version: str
    weights: str = "float32"
    threads: int = 1

    def __post_init__(self) -> None:
        with torch.no_grad():
            self.head.norm.copy_(self.parts.norm)

    @property
    def shape(self) -> Shape:
        return self.head.shape

    @property
    def few(self) -> Few:
        return Few(self.vocabulary, len(self.parts.embedding))


class Linears:
    """What a head borrows from its target, by torch; its own linears become such as ``weights`` says."""

    def __init__(self, running: RunningHead) -> None:
        self._embedding = running.parts.embedding
        out = nn.Linear(running.shape.hidden, len(running.vocabulary), bias=False)
        with torch.no_grad():
            out.weight.copy_(running.parts.head.float())
        self._out = nn.Sequential(out)  # so that it can be replaced within
        self._out.requires_grad_(False)
        quantise(self._out, running, Format.INT8_GROUPED)
        quantise(running.head, running)

    def embeddings(self, token_ids: Sequence[int]) -> Tensor:
        """float32 [tokens, hidden]."""
        return self._embedding[torch.tensor(token_ids)].float()

    def logits(self, features: Tensor) -> Tensor:
        """[rows, hidden] to [rows, head's vocabulary]."""
        said: Tensor = self._out(features)
        return said


def quantise(module: nn.Module, running: RunningHead, kind: Format | None = None) -> None:
    """Replace the linears in ``module``; ``kind``: other than that of the head's weights."""
    if running.weights != "float32":
        kind = kind or _FORMATS[running.weights]
        linear.quantise_linears(module, lambda _: kind, running.threads)


def load(config: Config, folder: str, kind: Kind) -> RunningHead:
    """The configured head, or the one shipped for the target.

    Raises:
        ConfigError: when there is none, or it is of another kind or for another target.
    """
    return prepared(config, folder, find(config, kind))


def prepared(config: Config, folder: str, file: HeadFile) -> RunningHead:
    """A head with what it borrows from the target, in the configured weights.

    Raises:
        ConfigError: when it is for another target, or its weights do not fit its shape.
    """
    target: Any = store.load_config(folder)
    sizes = (target.hidden_size, target.num_hidden_layers)
    known = file.vocabulary.ge(0).all() and file.vocabulary.lt(target.vocab_size).all()
    if not known or sizes != (file.shape.hidden, file.shape.layers[-1]):
        raise ConfigError(f"the head {file.version} is not for this target", field="head")
    weights = "int8" if config.weights == "auto" else config.weights
    if weights not in (*_FORMATS, "float32"):
        raise ConfigError(f"a head has weights int8, int4 or float32, not {weights}", field="weights")
    threads = config.threads or 1  # a pass is too short to be shared, least of all with a target's threads
    # Idle OpenMP threads would spin on the cores that the kernel's threads need.
    torch.set_num_threads(threads if weights == "float32" else 1)
    parts = load_parts(folder, file.vocabulary)
    return RunningHead(file.module(), parts, file.vocabulary, file.version, weights, threads)


def shipped(model: str, kind: Kind) -> Path:
    """The file of the head that is shipped for a target, there or not."""
    return _SHIPPED / f"{Path(model).name}-{kind}.safetensors"


def find(config: Config, kind: Kind) -> HeadFile:
    """Raises ConfigError when there is no such head, or it is of another kind."""
    path = Path(config.head) if config.head else shipped(config.model, kind)
    file = files.load(path)
    if file.shape.kind != kind:
        raise ConfigError(f"{path} holds a head of kind {file.shape.kind}, not {kind}", field="head")
    return file


def pick_layers(states: Tensor, sent: tuple[int, ...], wanted: tuple[int, ...], hidden: int) -> Tensor:
    """float32 [positions, wanted * hidden] of [positions, sent * hidden]."""
    if sent == wanted:
        return states.float()
    places = [sent.index(layer) for layer in wanted]
    picked: Tensor = states.unflatten(-1, (len(sent), hidden))[:, places]
    return picked.flatten(1).float()
