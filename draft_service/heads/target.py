"""What a head borrows from its target: the token embedding, the final norm, rows of the output head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from common.errors import ConfigError
from common.model import store


@dataclass(frozen=True, slots=True)
class TargetParts:
    """
    Attributes:
        embedding: [target's vocabulary, hidden].
        head: [head's vocabulary, hidden], the rows of the tokens a head can guess.
        norm: [hidden], the weight of the target's last norm.
    """

    embedding: Tensor
    head: Tensor
    norm: Tensor


def load_parts(folder: str, vocabulary: Tensor, dtype: torch.dtype = torch.bfloat16) -> TargetParts:
    """From the target's files; only the norm stays as precise as it is there.

    Args:
        vocabulary: int64 [head's vocabulary], token ids.

    Raises:
        ConfigError: when the target's files lack one of them.
    """
    tied = bool(store.load_config(folder).tie_word_embeddings)
    with store.open_tensors(folder) as tensors:
        names = ["model.embed_tokens.weight", "model.norm.weight"]
        embedding, norm, head = (tensors(name) for name in [*names, names[0] if tied else "lm_head.weight"])
    if embedding is None or norm is None or head is None:
        raise ConfigError(f"{folder} lacks the tensors that a head borrows from its target", field="model")
    return TargetParts(embedding.to(dtype), head[vocabulary].to(dtype), norm.float())


def load_last_layer(folder: str) -> dict[str, Tensor]:
    """The weights of the target's last layer, named as in ``heads.layer.Layer``; none where it differs."""
    last = store.load_config(folder).num_hidden_layers - 1
    names = {
        "input_norm": "input_layernorm",
        "post_norm": "post_attention_layernorm",
        **{name: f"self_attn.{name}_proj" for name in "qkvo"},
        **{name: f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    }
    with store.open_tensors(folder) as tensors:
        found = {own: tensors(f"model.layers.{last}.{theirs}.weight") for own, theirs in names.items()}
    return {f"{own}.weight": weight.float() for own, weight in found.items() if weight is not None}
