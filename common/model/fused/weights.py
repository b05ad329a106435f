"""A model's tensors, packed for the kernel and kept where it reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


class Weights:
    """The kernel's structures and the memory they point to."""

    def __init__(self, architecture: Architecture, tensors: Tensors, recipe: Recipe) -> None:
        self._tensors = tensors
        self._recipe = recipe
        self._kept: list[Any] = []
        self.layers = (library.Layer * architecture.layers)(
            *(self._layer(index, architecture) for index in range(architecture.layers))
        )
        self.embedding = self._linear(self._required("model.embed_tokens.weight"), recipe.head)
        head = self._tensors("lm_head.weight")
        tied = architecture.tied or head is None
        self.head = self.embedding if tied else self._linear(_checked(head, "lm_head.weight"), recipe.head)
        self.final_norm = self._vector("model.norm.weight")
        self.cosines = self._keep(architecture.cosines)
        self.sines = self._keep(architecture.sines)

    @property
    def num_bytes(self) -> int:
        return sum(kept.numel() * kept.element_size() for kept in self._kept)

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
            data=self._keep(packed.data),
            scales=None if packed.scales is None else self._keep(packed.scales),
            bias=None if bias is None else self._keep(bias.float()),
        )

    def _vector(self, name: str) -> int:
        return self._keep(self._required(name).float())

    def _required(self, name: str) -> Tensor:
        return _checked(self._tensors(name), name)

    def _keep(self, tensor: Tensor) -> int:
        kept = tensor.detach().contiguous()
        self._kept.append(kept)
        return kept.data_ptr()


def _checked(tensor: Tensor | None, name: str) -> Tensor:
    if tensor is None:
        raise KeyError(f"the model has no tensor {name}")
    return tensor
