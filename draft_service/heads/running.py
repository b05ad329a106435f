"""A head as a source runs it: few rows at a time."""

from __future__ import annotations

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

_SHIPPED = Path(__file__).parents[1] / "weights"


class RunningHead:
    """
    Attributes:
        head: its linears in int8 where that was asked for.
        version: what it is called in answers.
        few: the tokens that its logits are of.
    """

    def __init__(
        self, head: Head, parts: TargetParts, vocabulary: Tensor, version: str, *, int8_threads: int = 0
    ) -> None:
        """
        Args:
            int8_threads: 0: weights stay float32; else they are int8, and multiplied by so many threads.
            parts: of the target.
            vocabulary: int64 [head's vocabulary], token ids.
        """
        self.head = head
        self.shape: Shape = head.shape
        self.version = version
        self._embedding = parts.embedding
        self.few = Few(vocabulary, len(parts.embedding))
        out = nn.Linear(self.shape.hidden, len(vocabulary), bias=False)
        with torch.no_grad():
            head.norm.copy_(parts.norm)
            out.weight.copy_(parts.head.float())
        self._out = nn.Sequential(out)  # so that it can be replaced within
        self._out.requires_grad_(False)
        if int8_threads:
            for module in (head, self._out):
                linear.quantise_linears(module, lambda _: Format.INT8_GROUPED, int8_threads)

    def embeddings(self, token_ids: list[int]) -> Tensor:
        """float32 [tokens, hidden]."""
        return self._embedding[torch.tensor(token_ids)].float()

    def logits(self, features: Tensor) -> Tensor:
        """[rows, hidden] to [rows, head's vocabulary]."""
        said: Tensor = self._out(features)
        return said


def load(config: Config, folder: str, kind: Kind) -> RunningHead:
    """The configured head, or the one shipped for the target.

    Raises:
        ConfigError: when there is none, or it is of another kind or for another target.
    """
    file = find(config, kind)
    target: Any = store.load_config(folder)
    sizes = (target.hidden_size, target.num_hidden_layers)
    if sizes != (file.shape.hidden, file.shape.layers[-1]) or int(file.vocabulary.max()) >= target.vocab_size:
        raise ConfigError(f"the head {file.version} is not for this target", field="head")
    if config.weights not in ("auto", "int8", "float32"):
        raise ConfigError(f"a head has weights int8 or float32, not {config.weights}", field="weights")
    parts, threads = load_parts(folder, file.vocabulary), config.threads or 1
    int8 = config.weights != "float32"
    torch.set_num_threads(1 if int8 else threads)  # idle OpenMP threads would spin where others compute
    int8_threads = threads if int8 else 0
    return RunningHead(file.module(), parts, file.vocabulary, file.version, int8_threads=int8_threads)


def find(config: Config, kind: Kind) -> HeadFile:
    """Raises ConfigError when there is no such head, or it is of another kind."""
    path = Path(config.head) if config.head else _SHIPPED / f"{Path(config.model).name}-{kind}.safetensors"
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
