"""One transformer layer of the target's shape, in pieces: who attends to what is the caller's affair."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from draft_service.heads.shape import Shape


class Norm(nn.Module):
    """Root mean square norm (Zhang and Sennrich 2019), its weight in whatever type the input has."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self._epsilon)


class Layer(nn.Module):
    """A Llama layer without its attention (Touvron et al. 2023)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._shape = shape
        hidden, size = shape.hidden, shape.head_size
        self.input_norm = Norm(hidden, shape.epsilon)
        self.q = nn.Linear(hidden, shape.heads * size, bias=False)
        self.k = nn.Linear(hidden, shape.kv_heads * size, bias=False)
        self.v = nn.Linear(hidden, shape.kv_heads * size, bias=False)
        self.o = nn.Linear(shape.heads * size, hidden, bias=False)
        self.post_norm = Norm(hidden, shape.epsilon)
        self.gate = nn.Linear(hidden, shape.intermediate, bias=False)
        self.up = nn.Linear(hidden, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, hidden, bias=False)
        self.frequencies: Tensor
        self.register_buffer("frequencies", frequencies(size, shape.rope_theta), persistent=False)

    def query_key_value(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[..., rows, hidden] to [..., heads or kv heads, rows, head size], queries and keys rotated.

        Args:
            positions: [rows].
        """
        normal = self.input_norm(x)
        query, key, value = (
            linear(normal).unflatten(-1, (-1, self._shape.head_size)).transpose(-3, -2)
            for linear in (self.q, self.k, self.v)
        )
        turned = positions.float().unsqueeze(-1) * self.frequencies
        cosines, sines = turned.cos(), turned.sin()
        return rotate(query, cosines, sines), rotate(key, cosines, sines), value

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """After attention: [..., rows, hidden] and [..., heads, rows, head size] to [..., rows, hidden]."""
        x = x + self.o(attended.transpose(-3, -2).flatten(-2))
        normal = self.post_norm(x)
        made: Tensor = x + self.down(F.silu(self.gate(normal)) * self.up(normal))
        return made


def frequencies(head_size: int, theta: float) -> Tensor:
    """Of the rotary embedding (Su et al. 2021), radians a position: float32 [head size / 2]."""
    return theta ** -(torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """The first half of the channels turned against the second, as Llama pairs them."""
    cosines, sines = cosines.to(x.dtype), sines.to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)
