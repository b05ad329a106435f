"""A head in one safetensors file: its weights, the tokens it can guess, and its shape beside them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from common.errors import ConfigError
from draft_service.heads.eagle import EagleHead
from draft_service.heads.medusa import MedusaHead
from draft_service.heads.shape import Shape

_VOCABULARY = "vocabulary"

Head = EagleHead | MedusaHead


@dataclass(frozen=True, slots=True)
class HeadFile:
    """
    Attributes:
        vocabulary: int64 [shape.vocabulary], the token id of each output.
        version: what the head is called in answers and metrics.
        fingerprint: of the target's vocabulary; see ``tokenizer.fingerprint``.
    """

    shape: Shape
    weights: Mapping[str, Tensor]
    vocabulary: Tensor
    version: str
    fingerprint: str

    def module(self) -> Head:
        """The head with these weights, in float32, in evaluation mode.

        Raises:
            ConfigError: when the weights do not fit the shape.
        """
        head = make(self.shape)
        if len(self.vocabulary) != self.shape.vocabulary:
            raise ConfigError("the head's vocabulary does not fit its shape", field="head")
        try:
            head.load_state_dict({name: weight.float() for name, weight in self.weights.items()})
        except RuntimeError as error:
            raise ConfigError(f"the head's weights do not fit its shape: {error}", field="head") from None
        return head.eval().requires_grad_(False)


def make(shape: Shape) -> Head:
    """A head of that shape, its weights as they come."""
    return EagleHead(shape) if shape.kind == "eagle" else MedusaHead(shape)


def load(path: Path) -> HeadFile:
    """Raises ConfigError for a file that is not there or holds no head."""
    try:
        with safe_open(path, "pt") as file:
            described = json.loads((file.metadata() or {})["tandem"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 – no mapping
            vocabulary = tensors.pop(_VOCABULARY).long()
    except (OSError, SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path} holds no head: {error}", field="head") from None
    shape = Shape.from_json(described["shape"])
    return HeadFile(shape, tensors, vocabulary, described["version"], described["fingerprint"])


def save(path: Path, head: nn.Module, file: HeadFile, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write ``head`` with what ``file`` says about it; the file is whole or not there at all."""
    tensors = {name: weight.detach().to(dtype) for name, weight in head.state_dict().items()}
    described = {"shape": file.shape.to_json(), "version": file.version, "fingerprint": file.fingerprint}
    write(path, tensors | {_VOCABULARY: file.vocabulary.int()}, {"tandem": json.dumps(described)})


def write(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """A safetensors file under its name only once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(descriptor)
    try:
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(whole, made, dict(metadata) if metadata else None)
        Path(made).chmod(0o644)
        Path(made).replace(path)
    finally:
        Path(made).unlink(missing_ok=True)
