"""What the kernel needs to know of a model, and whether it can run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from common.model.fused.layout import GROUP, LANES

_FAMILY = ("llama", "mistral", "qwen2", "qwen3")
_BEYOND = 256  # guesses made at the end of the context lie past it
_STATIC_ROPE = ("default", "linear", "llama3", "yarn")


class Unsupported(Exception):
    """The kernel does not run this model; the message says why."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """
    Attributes:
        positions: that have angles.
        windows: of each layer the tokens a row may look back to, itself included; 0: all.
        cosines, sines: float32 [positions, head size / 2].
        embedded: tokens that have an embedding; 0: ``vocabulary``.
        joined: a feature is read beside every token, as by the heads of EAGLE (Li et al. 2024): the first
            layer's input is ``model.join`` of both, each after a norm of its own.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    positions: int
    epsilon: float
    tied: bool
    query_key_norm: bool
    windows: tuple[int, ...]
    cosines: Tensor
    sines: Tensor
    embedded: int = 0
    joined: bool = False

    @property
    def token_ids(self) -> int:
        """What every token id must be below."""
        return self.embedded or self.vocabulary

    @staticmethod
    def of(config: Any) -> Architecture:
        """From a transformers configuration. Raises Unsupported."""
        _check(config)
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        positions = config.max_position_embeddings + _BEYOND
        cosines, sines = _angles(config, positions)
        _require(
            2 * cosines.shape[1] == head_size,
            f"its rotary embedding turns {2 * cosines.shape[1]} of {head_size} channels",
        )
        return Architecture(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_size=head_size,
            intermediate=config.intermediate_size,
            vocabulary=config.vocab_size,
            positions=positions,
            epsilon=config.rms_norm_eps,
            tied=config.tie_word_embeddings,
            query_key_norm=config.model_type == "qwen3",
            windows=_windows(config),
            cosines=cosines,
            sines=sines,
        )


def _check(config: Any) -> None:
    _require(config.model_type in _FAMILY, f"the architecture {config.model_type} is not of the Llama family")
    _require(config.hidden_act == "silu", f"its activation is {config.hidden_act}, not silu")
    _require(
        getattr(config, "quantization_config", None) is None,
        "its weights are quantised already",
    )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    _require(rope in _STATIC_ROPE, f"its rotary embedding {rope} changes with the context")
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    check_sizes(config.hidden_size, config.intermediate_size, head_size, config.vocab_size)


def check_sizes(hidden: int, intermediate: int, head_size: int, vocabulary: int) -> None:
    """Raises Unsupported."""
    for name, size, multiple in (
        ("hidden size", hidden, GROUP),
        ("intermediate size", intermediate, 2 * GROUP),
        ("head size", head_size, GROUP),
        ("vocabulary", vocabulary, LANES),
    ):
        _require(size % multiple == 0, f"its {name} {size} is not a multiple of {multiple}")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Unsupported(otherwise)


def _windows(config: Any) -> tuple[int, ...]:
    window: int = getattr(config, "sliding_window", None) or 0
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        kinds = ["sliding_attention"] * config.num_hidden_layers
    return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)


def _angles(config: Any, positions: int) -> tuple[Tensor, Tensor]:
    """As the model's own rotary embedding has them, for every position."""
    rotary = LlamaRotaryEmbedding(config)
    with torch.inference_mode():
        cosines, sines = rotary(torch.zeros(1), torch.arange(positions).unsqueeze(0))
    half = cosines.shape[-1] // 2
    return cosines[0, :, :half].contiguous().float(), sines[0, :, :half].contiguous().float()
