"""A model's tensors, packed for the kernel and kept where it reads them."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from common.model.fused import layout, library
from common.model.fused.architecture import Architecture
from common.model.fused.layout import Format, Packed

Tensors = Callable[[str], Tensor | None]
"""A tensor of the model by its name in transformers, or None."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The format of the layers' linears, of the head and of the embedding it may share."""

    layers: Format
    head: Format
    half_cache: bool


RECIPES = {
    "float32": Recipe(Format.FLOAT32, Format.FLOAT32, half_cache=False),
    "bfloat16": Recipe(Format.BFLOAT16, Format.BFLOAT16, half_cache=True),
    "int8": Recipe(Format.INT8, Format.INT8_GROUPED, half_cache=True),
    "int4": Recipe(Format.INT4, Format.INT8_GROUPED, half_cache=True),
}


class _Arena:
    """Memory for what the kernel reads, in huge pages where the system has them.

    With pages of 4 KiB the processor spends up to half the time of a pass on finding them.
    """

    _CHUNK = 32 << 20
    _ALIGNMENT = 64

    def __init__(self) -> None:
        self._chunks: list[Tensor] = []
        self._used = 0
        self.num_bytes = 0

    def keep(self, tensor: Tensor) -> int:
        """A copy's address, valid as long as this arena lives."""
        source = tensor.detach().contiguous().flatten().view(torch.uint8)
        if not self._chunks or self._used + len(source) > len(self._chunks[-1]):
            self._chunks.append(_huge(max(len(source), self._CHUNK)))
            self._used = 0
        place = self._chunks[-1][self._used : self._used + len(source)]
        place.copy_(source)
        self._used += -(-len(source) // self._ALIGNMENT) * self._ALIGNMENT
        self.num_bytes += len(source)
        return place.data_ptr()


def _huge(size: int) -> Tensor:
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


class Weights:
    """The kernel's structures and the memory they point to."""

    def __init__(self, architecture: Architecture, tensors: Tensors, recipe: Recipe) -> None:
        self._tensors = tensors
        self._recipe = recipe
        self._arena = _Arena()
        self.layers = (library.Layer * architecture.layers)(
            *(self._layer(index, architecture) for index in range(architecture.layers))
        )
        self.embedding = self._linear(self._required("model.embed_tokens.weight"), recipe.head)
        head = self._tensors("lm_head.weight")
        tied = architecture.tied or head is None
        self.head = self.embedding if tied else self._linear(_checked(head, "lm_head.weight"), recipe.head)
        self.final_norm = self._vector("model.norm.weight")
        self.cosines = self._arena.keep(architecture.cosines)
        self.sines = self._arena.keep(architecture.sines)

    @property
    def num_bytes(self) -> int:
        return self._arena.num_bytes

    def _layer(self, index: int, architecture: Architecture) -> library.Layer:
        prefix = f"model.layers.{index}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        norms = architecture.query_key_norm
        return library.Layer(
            qkv=self._joined([attention + f"{name}_proj" for name in "qkv"], torch.cat),
            output=self._joined([attention + "o_proj"], torch.cat),
            gate_up=self._joined([mlp + "gate_proj", mlp + "up_proj"], lambda pair: layout.interleave(*pair)),
            down=self._joined([mlp + "down_proj"], torch.cat),
            input_norm=self._vector(prefix + "input_layernorm.weight"),
            post_norm=self._vector(prefix + "post_attention_layernorm.weight"),
            query_norm=self._vector(attention + "q_norm.weight") if norms else None,
            key_norm=self._vector(attention + "k_norm.weight") if norms else None,
            window=architecture.windows[index],
        )

    def _joined(self, names: list[str], join: Callable[[list[Tensor]], Tensor]) -> library.Linear:
        weight = join([self._required(f"{name}.weight").float() for name in names])
        biases = [self._tensors(f"{name}.bias") for name in names]
        if all(bias is None for bias in biases):
            return self._linear(weight, self._recipe.layers)
        rows = [self._required(f"{name}.weight").shape[0] for name in names]
        filled = [
            torch.zeros(count) if bias is None else bias.float()
            for bias, count in zip(biases, rows, strict=True)
        ]
        return self._linear(weight, self._recipe.layers, join(filled))

    def _linear(self, weight: Tensor, format: Format, bias: Tensor | None = None) -> library.Linear:
        packed: Packed = layout.pack(weight, format)
        return library.Linear(
            format=packed.format,
            inputs=packed.inputs,
            outputs=packed.outputs,
            data=self._arena.keep(packed.data),
            scales=None if packed.scales is None else self._arena.keep(packed.scales),
            bias=None if bias is None else self._arena.keep(bias.float()),
        )

    def _vector(self, name: str) -> int:
        return self._arena.keep(self._required(name).float())

    def _required(self, name: str) -> Tensor:
        return _checked(self._tensors(name), name)


def _checked(tensor: Tensor | None, name: str) -> Tensor:
    if tensor is None:
        raise KeyError(f"the model has no tensor {name}")
    return tensor
