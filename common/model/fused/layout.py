"""Weights as the kernel reads them: quantised, and laid out in panels of 16 output channels.

What each format holds is said in kernel/linear.h. Weights come as float [outputs, inputs].
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

LANES = 16
GROUP = 32
"""Inputs that share a scale; every linear needs a multiple of them."""


class Format(enum.IntEnum):
    FLOAT32 = 0
    BFLOAT16 = 1
    INT8 = 2
    INT8_GROUPED = 3
    INT4 = 4


@dataclass(frozen=True, slots=True)
class Packed:
    """
    Attributes:
        outputs: a multiple of 16.
        data: uint8, the panels.
        scales: float32 [outputs], of ``INT8`` alone.
    """

    format: Format
    inputs: int
    outputs: int
    data: Tensor
    scales: Tensor | None = None


def pack(weight: Tensor, kind: Format) -> Packed:
    """``weight``: [outputs, inputs]; missing outputs up to a multiple of 16 become zeros."""
    outputs, inputs = weight.shape
    padded = F.pad(weight.to(torch.float32), (0, 0, 0, -outputs % LANES))
    data, scales = _PACKERS[kind](padded)
    return Packed(kind, inputs, len(padded), data, scales)


def interleave(gate: Tensor, up: Tensor) -> Tensor:
    """Panels of ``gate`` and ``up`` in turn, so that one task has both factors of its channels."""
    panels = [weight.unflatten(0, (-1, LANES)) for weight in (gate, up)]
    return torch.stack(panels, 1).flatten(0, 2)


def int8_values(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric, per output channel: int8 [outputs, inputs] and the float32 scale [outputs, 1]."""
    scale = weight.abs().amax(-1, keepdim=True) / 127
    return torch.round(weight / scale.clamp_min(1e-30)).to(torch.int8), scale


def int8_grouped_values(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric, per group: int8 [outputs, groups, 32] and the float32 scale [outputs, groups, 1].

    Gives back the values of GGUF's Q8_0 exactly: its largest magnitude is 127 times its scale.
    """
    return int8_values(weight.unflatten(-1, (-1, GROUP)))


def int4_values(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Affine, per group: 0 to 15 [outputs, groups, 32], and float16 scale and minimum [outputs, groups, 1].

    Gives back the values of GGUF's Q4_1: it uses both 0 and 15 in every group, so the least value is its
    minimum and the range 15 times its scale, both float16 already.
    """
    grouped = weight.unflatten(-1, (-1, GROUP))
    least, most = grouped.amin(-1, keepdim=True), grouped.amax(-1, keepdim=True)
    scale, minimum = ((most - least) / 15).to(torch.float16), least.to(torch.float16)
    quanta = torch.round((grouped - minimum.float()) / scale.float().clamp_min(1e-30))
    return quanta.clamp(0, 15).to(torch.uint8), scale, minimum


def _float32(weight: Tensor) -> tuple[Tensor, None]:
    return _bytes(weight.unflatten(0, (-1, LANES)).transpose(1, 2)), None


def _bfloat16(weight: Tensor) -> tuple[Tensor, None]:
    pairs = weight.to(torch.bfloat16).unflatten(0, (-1, LANES)).unflatten(-1, (-1, 2))
    return _bytes(pairs.transpose(1, 2)), None


def _int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    values, scale = int8_values(weight)
    fours = _unsigned(values).unflatten(0, (-1, LANES)).unflatten(-1, (-1, 4))
    return _bytes(fours.transpose(1, 2)), scale.flatten()


def _int8_grouped(weight: Tensor) -> tuple[Tensor, None]:
    values, scale = int8_grouped_values(weight)
    fours = _unsigned(values).unflatten(-1, (-1, 4))  # [outputs, groups, 8, 4]
    steps = fours.unflatten(0, (-1, LANES)).permute(0, 2, 3, 1, 4)
    return _records(_lanes(scale), steps), None


def _int4(weight: Tensor) -> tuple[Tensor, None]:
    values, scale, minimum = int4_values(weight)
    low, high = values.unflatten(-1, (2, -1)).unbind(-2)
    bytes_ = (low | high << 4).unflatten(-1, (-1, 4))  # [outputs, groups, 4, 4]
    steps = bytes_.unflatten(0, (-1, LANES)).permute(0, 2, 3, 1, 4)
    return _records(_lanes(scale), _lanes(minimum), steps), None


def _lanes(per_group: Tensor) -> Tensor:
    """[outputs, groups, 1] to [panels, groups, 16]."""
    panels: Tensor = per_group.squeeze(-1).unflatten(0, (-1, LANES))
    return panels.transpose(1, 2)


def _records(*parts: Tensor) -> Tensor:
    """One record per panel and group, the parts of each one after the other."""
    flat = [part.contiguous().flatten(2).view(torch.uint8) for part in parts]
    return torch.cat(flat, -1).flatten()


def _unsigned(values: Tensor) -> Tensor:
    return (values.to(torch.int16) + 128).to(torch.uint8)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


_PACKERS: Mapping[Format, Callable[[Tensor], tuple[Tensor, Tensor | None]]] = MappingProxyType(
    {
        Format.FLOAT32: _float32,
        Format.BFLOAT16: _bfloat16,
        Format.INT8: _int8,
        Format.INT8_GROUPED: _int8_grouped,
        Format.INT4: _int4,
    }
)
