"""Draft models with a head of another size than the target's: fitted to it, or cut to frequent tokens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from common.errors import ConfigError
from common.model import linear, store
from common.model.batch import Move, Output, Runner, Segment
from common.model.fused import library
from common.model.fused.arena import Arena
from common.model.fused.layout import GROUP
from common.model.fused.weights import RECIPES

_VARIABLE = "TANDEM_DRAFT_VOCABULARY_FILE"
_HEADS = ("lm_head.weight", "model.embed_tokens.weight")

Head = Callable[[Tensor], Tensor]
"""[rows, hidden size] to [rows, kept tokens]."""


class FittedRunner:
    """A model with the target's tokenizer and more or fewer rows behind it.

    Models of one family pad their vocabulary to different lengths. The ids of the padding are no tokens: here
    they are never guessed, and read as token 0 where the target yields one.
    """

    def __init__(self, runner: Runner, own_size: int, size: int) -> None:
        """``own_size``: of the model's logits; ``size``: of the target's."""
        self._runner = runner
        self._own_size = own_size
        self._size = size

    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        known = [
            replace(s, token_ids=[t if t < self._own_size else 0 for t in s.token_ids]) for s in segments
        ]
        outputs = self._runner.run(known, moves)
        return [Output(self._fitted(output.logits), output.hidden) for output in outputs]

    def _fitted(self, logits: Tensor) -> Tensor:
        return nn.functional.pad(logits, (0, self._size - self._own_size), value=-torch.inf)


class TrimmedRunner:
    """A model whose head keeps the rows of a few frequent tokens: FR-Spec (Zhao et al. 2025).

    In a small model the head is most of a pass, and most of what a target says is said in few tokens. The
    others have the logit -inf: q has no support there, which costs guesses and never exactness.
    """

    def __init__(self, runner: Runner, head: Head, kept: Tensor, size: int) -> None:
        """
        Args:
            runner: gives hidden states after the final norm.
            kept: int64 [kept tokens], ids below ``size``.
            size: of the target's logits.
        """
        self._runner = runner
        self._head = head
        self._kept = kept
        self._size = size

    @torch.inference_mode()
    def run(self, segments: Sequence[Segment], moves: Sequence[Move] = ()) -> list[Output]:
        bodies = [replace(s, logits=0, hidden=s.logits > 0) for s in segments]
        outputs = self._runner.run(bodies, moves)
        states = [
            output.hidden[-segment.logits :]
            for segment, output in zip(segments, outputs, strict=True)
            if output.hidden is not None
        ]
        logits = iter(self._logits(torch.cat(states)).split([len(rows) for rows in states]) if states else ())
        nothing = torch.empty(0, self._size)
        return [Output(next(logits) if segment.logits else nothing) for segment in segments]

    def _logits(self, states: Tensor) -> Tensor:
        """[rows, hidden size] to [rows, size]."""
        said = self._head(states).float()
        logits = said.new_full((len(said), self._size), -torch.inf)
        return logits.index_copy_(1, self._kept.to(said.device), said)


def read_kept(path: str, size: int) -> Tensor:
    """The token ids of a vocabulary file, ascending: a JSON list, or safetensors with one tensor of integers.

    Raises:
        ConfigError: for a file that is neither, or names a token that is not below ``size``.
    """
    try:
        kept = _read_json(path) if Path(path).suffix == ".json" else _read_tensor(path)
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigError(f"{_VARIABLE}: {path}: {error}", field=_VARIABLE) from None
    if not len(kept) or int(kept.min()) < 0 or int(kept.max()) >= size:
        raise ConfigError(f"{_VARIABLE}: {path} must name 1 to {size} tokens below {size}", field=_VARIABLE)
    found: Tensor = kept.unique()
    return found


def _read_json(path: str) -> Tensor:
    listed = json.loads(Path(path).read_text())
    if not isinstance(listed, list) or not all(type(token_id) is int for token_id in listed):
        raise ValueError("not a list of token ids")
    return torch.tensor(listed, dtype=torch.int64)


def _read_tensor(path: str) -> Tensor:
    tensors: list[Tensor] = list(load_file(path).values())
    (tensor,) = tensors
    if tensor.dtype.is_floating_point or tensor.dim() != 1:
        raise ValueError("not one vector of integers")
    return tensor.to(torch.int64)


def trimmed_head(folder: str, kept: Tensor, weights: str, device: str, threads: int) -> Head:
    """The rows of the model's head that are kept, in the format the whole head would have.

    Raises:
        ConfigError: for a model whose head goes by another name.
    """
    head = _kept_rows(folder, kept)
    if device == "cpu" and weights in RECIPES and head.in_features % GROUP == 0:
        with contextlib.suppress(library.Unavailable):
            format_, multiplier = RECIPES[weights].head, linear.Multiplier(threads)
            packed = linear.KernelLinear(head, format_, multiplier, Arena())
            return _cast(packed, torch.float32)
    head.to(device, store.default_dtype(device))
    return _cast(head, head.weight.dtype)


def _cast(module: nn.Module, dtype: torch.dtype) -> Head:
    def run(states: Tensor) -> Tensor:
        logits: Tensor = module(states.to(dtype))
        return logits

    return run


def _kept_rows(folder: str, kept: Tensor) -> nn.Linear:
    with store.open_tensors(folder) as tensors:
        weight = next((found for name in _HEADS if (found := tensors(name)) is not None), None)
        bias = tensors("lm_head.bias")
    if weight is None:
        raise ConfigError(f"{_VARIABLE}: {folder} has no tensor {_HEADS[0]}", field=_VARIABLE)
    head = nn.Linear(weight.shape[1], len(kept), bias=bias is not None, device="meta")
    head.weight = nn.Parameter(weight[kept].float(), requires_grad=False)
    if bias is not None:
        head.bias = nn.Parameter(bias[kept].float(), requires_grad=False)
    return head
