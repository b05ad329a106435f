"""Linear layers that stand in for ``nn.Linear`` on a CPU, in models that transformers runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from common.model.fused import layout, library
from common.model.fused.arena import Arena
from common.model.fused.layout import GROUP, LANES, Format
from common.model.fused.weights import linear as keep_linear

_ROWS_TO_OPTIMISE_FOR = 8
_SMALLEST = 1e-30  # as in fused/kernel/linear.h
_FORMATS = {"int8": Format.INT8, "int4": Format.INT4}


class PackedLinear(nn.Module):
    """float32: [..., in_features] to [..., out_features], the weight laid out once for few rows.

    The stock layer hands a row-major weight to a matrix product made for many rows: on a 2-core AVX2 machine
    8 rows then cost 2.2 times as much as one. oneDNN with a weight reordered beforehand does 1 to 5 rows in
    the same time and 8 in 1.3 times that, which is what makes verifying a block nearly free.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS_TO_OPTIMISE_FOR)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return product


class Multiplier:
    """The kernel's threads for linears that are run one by one; for one caller at a time."""

    def __init__(self, threads: int) -> None:
        """
        Raises:
            Unavailable: where the kernel cannot be compiled.
            MemoryError: where the system has no more threads.
        """
        assert threads > 0
        self._kernel = library.load()
        self._handle = self._kernel.tandem_multiplier(threads)
        if not self._handle:
            raise MemoryError(f"no memory for {threads} threads")
        library.release_with(self, self._kernel.tandem_forget, self._handle)

    def __call__(self, linear: library.Linear, x: Tensor) -> Tensor:
        """[rows, inputs] to [rows, outputs], float32 and contiguous."""
        assert x.dtype == torch.float32 and x.is_contiguous() and x.shape[1] == linear.inputs
        out = torch.empty(len(x), linear.outputs, dtype=torch.float32)
        failed = self._kernel.tandem_multiply(
            self._handle, ctypes.byref(linear), x.data_ptr(), len(x), out.data_ptr()
        )
        if failed:
            raise MemoryError("a linear layer's input does not fit into memory")
        return out


class KernelLinear(nn.Module):
    """int8 or int4 weights, multiplied by the kernel: [..., in_features] to [..., out_features]."""

    def __init__(self, linear: nn.Linear, kind: Format, multiplier: Multiplier, arena: Arena) -> None:
        super().__init__()
        self._multiplier = multiplier
        self._arena = arena  # keeps the weights alive
        self._outputs = linear.out_features
        bias = None if linear.bias is None else nn.functional.pad(linear.bias, (0, -self._outputs % LANES))
        self._linear = keep_linear(arena, layout.pack(linear.weight, kind), bias)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        return self._multiplier(self._linear, rows)[:, : self._outputs].reshape(*x.shape[:-1], self._outputs)


class TorchLinear(nn.Module):
    """What ``KernelLinear`` computes, without it: for machines that cannot compile, and for its tests.

    Products of quantised groups are sums of at most 32 * 127 * 127, which float32 holds exactly.
    """

    def __init__(self, linear: nn.Linear, kind: Format) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        if kind is Format.INT4:
            quanta, scale, minimum = layout.int4_values(weight)
            scale, minimum = scale.float(), minimum.float()
        elif kind is Format.INT8_GROUPED:
            quanta, scale = layout.int8_grouped_values(weight)
            minimum = torch.zeros_like(scale)
        else:
            values, channel_scale = layout.int8_values(weight)
            quanta = values.reshape(len(values), -1, GROUP)
            scale = channel_scale.unsqueeze(-1).expand(-1, quanta.shape[1], 1)
            minimum = torch.zeros_like(scale)
        self._quanta = quanta.permute(1, 2, 0).contiguous()  # [groups, 32, outputs]
        self._scale = scale.squeeze(-1).T.unsqueeze(1)  # [groups, 1, outputs]
        self._minimum = minimum.squeeze(-1).T.unsqueeze(1)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1] // GROUP, GROUP).transpose(0, 1)  # [groups, rows, 32]
        most = rows.abs().amax(-1, keepdim=True)
        quanta = torch.round(rows * torch.where(most > _SMALLEST, 127 / most, 0))
        step = most / 127
        products = torch.bmm(quanta, self._quanta.to(quanta.dtype))
        groups = step * (self._scale * products + self._minimum * quanta.sum(-1, keepdim=True))
        total = torch.zeros_like(groups[0])
        for group in groups:
            total = total + group
        out = total if self._bias is None else total + self._bias
        return out.reshape(*x.shape[:-1], out.shape[-1])


def pack(model: Any) -> None:
    """Lay out every float32 ``nn.Linear`` on a CPU; elsewhere, and for other types, a no-op."""
    if torch.backends.mkldnn.is_available():
        _replace(model, PackedLinear, lambda linear: linear.weight.dtype == torch.float32)


def quantise(model: Any, weights: str, threads: int) -> None:
    """Replace every linear of a float32 model on a CPU, ``weights`` being ``int8`` or ``int4``.

    The head keeps grouped int8 scales, as in the fused runner. Layers whose inputs are not whole groups stay
    as they are.
    """
    _unfold_convolutions(model)
    head = model.get_output_embeddings()
    quantise_linears(
        model, lambda linear: Format.INT8_GROUPED if linear is head else _FORMATS[weights], threads
    )


def quantise_linears(module: Any, kind_of: Callable[[nn.Linear], Format], threads: int) -> None:
    """Replace every linear of any float32 module on a CPU, whose inputs are whole groups."""
    try:
        multiplier, arena = Multiplier(threads), Arena()
    except library.Unavailable:
        multiplier = None

    def quantised(linear: nn.Linear) -> nn.Module:
        if multiplier is None:
            return TorchLinear(linear, kind_of(linear))
        return KernelLinear(linear, kind_of(linear), multiplier, arena)

    _replace(module, quantised, lambda linear: linear.in_features % GROUP == 0)


def _replace(model: Any, make: Callable[[nn.Linear], nn.Module], wanted: Callable[[nn.Linear], bool]) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.weight.is_cpu and wanted(child):
                setattr(parent, name, make(child))


def _unfold_convolutions(model: Any) -> None:
    """GPT-2 keeps its linears as transposed one-wide convolutions."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Conv1D):
                inputs, outputs = child.weight.shape
                linear = nn.Linear(inputs, outputs, device="meta")
                linear.weight = nn.Parameter(child.weight.T.contiguous(), requires_grad=False)
                linear.bias = nn.Parameter(child.bias.detach(), requires_grad=False)
                setattr(parent, name, linear)
