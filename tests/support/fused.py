"""Small random models of the shapes that the kernel takes, and runners of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from common.model.fused.architecture import Architecture
from common.model.fused.runner import FusedRunner
from tests.support.models import livened, tiny_model
from tests.support.streams import NUM_BLOCKS

VOCABULARY = 96
CONTEXT = 256
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "num_hidden_layers": 2,
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.1,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama with one key head for all": {"num_key_value_heads": 1},
    "llama with a key head for each": {"num_key_value_heads": 4},
    "llama with three heads to a key head": {"hidden_size": 192, "num_attention_heads": 6},
    "llama with twelve heads to a key head": {
        "hidden_size": 384,
        "initializer_range": 0.05,
        "num_attention_heads": 12,
        "num_key_value_heads": 1,
    },
    "llama with a head size of its own": {"head_dim": 96},
    "llama with one matrix at both ends": {"tie_word_embeddings": True},
    "llama with biases": {"attention_bias": True, "mlp_bias": True},
    **{
        f"llama with {name} scaling": {"rope_parameters": scaling | {"rope_theta": 10000.0}}
        for name, scaling in SCALINGS.items()
    },
    "qwen2": {"class": Qwen2Config},
    "qwen2 with windows in the upper layers": {
        "class": Qwen2Config,
        "num_hidden_layers": 3,
        "use_sliding_window": True,
        "sliding_window": 7,
        "max_window_layers": 1,
    },
    "qwen3": {"class": Qwen3Config, "head_dim": 64},
    "mistral with a window": {"class": MistralConfig, "sliding_window": 21},
}


def config(name: str, **changes: Any) -> Any:
    """``name``: of ``CONFIGS``."""
    fields = SHAPE | CONFIGS[name] | changes
    made = fields.pop("class", LlamaConfig)
    return made(**fields)


def model(name: str, seed: int = 1, **changes: Any) -> Any:
    """For ``reference_logits`` and ``runner_of``; no parameter is what it is initialised to be."""
    return livened(tiny_model(seed, attention="eager", config=config(name, **changes)), seed)


def runner_of(
    model: Any,
    weights: str = "float32",
    threads: int = 1,
    hidden_layers: Sequence[int] = (),
    num_blocks: int = NUM_BLOCKS,
) -> FusedRunner:
    return FusedRunner(
        Architecture.of(model.config),
        model.state_dict().get,
        weights=weights,
        num_blocks=num_blocks,
        threads=threads,
        hidden_layers=hidden_layers,
    )
