"""A model's tensors, packed for the kernel and kept where it reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from common.model.fused import layout, library
from common.model.fused.architecture import Architecture, Unsupported
from common.model.fused.arena import Arena
from common.model.fused.layout import Format, Packed
from common.model.fused.packed_file import PackedFile

Tensors = Callable[[str], Tensor | None]
"""A tensor of the model by its name in transformers, or None."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which linears are kept in which format.

    Attributes:
        body: of every linear that nothing else is said of.
        qkv: of the joined query, key and value.
        ends: of all linears of the first and the last layer.
        head: of the head, and of the embedding, which may be the same.
        half_cache: keys and values as float16, else float32.
    """

    body: Format
    qkv: Format
    ends: Format
    head: Format
    half_cache: bool

    def of(self, name: str, index: int, layers: int) -> Format:
        if index in {0, layers - 1}:
            return self.ends
        return self.qkv if name == "qkv" else self.body


def _all(kind: Format, *, half_cache: bool) -> Recipe:
    return Recipe(kind, kind, kind, kind, half_cache)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "float32": _all(Format.FLOAT32, half_cache=False),
        "bfloat16": _all(Format.BFLOAT16, half_cache=True),
        # Most of what one scale per channel costs is lost in these; docs/performance.md has the figures.
        # Scales by group win it back as bfloat16 does, in half the bytes and on every processor.
        "int8": Recipe(
            Format.INT8, Format.INT8_GROUPED, Format.INT8_GROUPED, Format.INT8_GROUPED, half_cache=True
        ),
        "int4": Recipe(Format.INT4, Format.INT4, Format.INT4, Format.INT8_GROUPED, half_cache=True),
    }
)


def linear(arena: Arena, packed: Packed, bias: Tensor | None = None) -> library.Linear:
    """``bias``: [packed.outputs] or None."""
    return library.Linear(
        format=packed.format,
        inputs=packed.inputs,
        outputs=packed.outputs,
        data=arena.keep(packed.data),
        scales=None if packed.scales is None else arena.keep(packed.scales),
        bias=None if bias is None else arena.keep(bias.float()),
    )


class Weights:
    """The kernel's structures and the memory they point to."""

    def __init__(
        self, architecture: Architecture, tensors: Tensors, recipe: Recipe, packed: PackedFile
    ) -> None:
        self._tensors = tensors
        self._packed = packed
        self._recipe = recipe
        self._arena = Arena()
        self.layers = (library.Layer * architecture.layers)(
            *(self._layer(index, architecture) for index in range(architecture.layers))
        )
        self.embedding = self._joined(["model.embed_tokens"], torch.cat, recipe.head)
        self.head = self.embedding if architecture.tied else self._joined(["lm_head"], torch.cat, recipe.head)
        self.final_norm = self._vector("model.norm.weight")
        self.cosines = self._arena.keep(architecture.cosines)
        self.sines = self._arena.keep(architecture.sines)
        self.join = library.Linear()
        self.embedding_norm = self.feature_norm = None
        if architecture.joined:
            self.join = self._joined(["model.join"], torch.cat, recipe.ends)
            self.embedding_norm = self._vector("model.embedding_norm.weight")
            self.feature_norm = self._vector("model.feature_norm.weight")

    @property
    def num_bytes(self) -> int:
        return self._arena.num_bytes

    def _layer(self, index: int, architecture: Architecture) -> library.Layer:
        prefix = f"model.layers.{index}."
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        norms = architecture.query_key_norm

        def format_of(name: str) -> Format:
            return self._recipe.of(name, index, architecture.layers)

        return library.Layer(
            qkv=self._joined([attention + f"{name}_proj" for name in "qkv"], torch.cat, format_of("qkv")),
            output=self._joined([attention + "o_proj"], torch.cat, format_of("output")),
            gate_up=self._joined(
                [mlp + "gate_proj", mlp + "up_proj"],
                lambda pair: layout.interleave(*pair),
                format_of("gate_up"),
            ),
            down=self._joined([mlp + "down_proj"], torch.cat, format_of("down")),
            input_norm=self._vector(prefix + "input_layernorm.weight"),
            post_norm=self._vector(prefix + "post_attention_layernorm.weight"),
            query_norm=self._vector(attention + "q_norm.weight") if norms else None,
            key_norm=self._vector(attention + "k_norm.weight") if norms else None,
            window=architecture.windows[index],
        )

    def _joined(
        self, names: list[str], join: Callable[[list[Tensor]], Tensor], kind: Format
    ) -> library.Linear:
        def make() -> Packed:
            return layout.pack(join([self._required(f"{name}.weight").float() for name in names]), kind)

        return linear(self._arena, self._packed.get(" ".join(names), make), self._bias(names, join))

    def _bias(self, names: list[str], join: Callable[[list[Tensor]], Tensor]) -> Tensor | None:
        biases = [self._tensors(f"{name}.bias") for name in names]
        if all(bias is None for bias in biases):
            return None
        return join(
            [
                torch.zeros(len(self._required(f"{name}.weight"))) if bias is None else bias.float()
                for name, bias in zip(names, biases, strict=True)
            ]
        )

    def _vector(self, name: str) -> int:
        return self._arena.keep(self._required(name).float())

    def _required(self, name: str) -> Tensor:
        return _checked(self._tensors(name), name)


def _checked(tensor: Tensor | None, name: str) -> Tensor:
    if tensor is None:
        raise Unsupported(f"it has no tensor {name}")
    return tensor
