"""How large a head is, and what it needs to know of its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from common.errors import ConfigError
from common.states import MOST_POSITIONS

Kind = Literal["eagle", "medusa"]
_FAMILY = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Shape:
    """
    Attributes:
        layers: whose hidden states are read, as ``ModelRunner`` counts them; the last is the target's last.
        depth: ``medusa``: tokens guessed at once; ``eagle``: steps it was trained for.
        vocabulary: tokens it can guess.
        window: committed positions that a step looks back to.
        hidden, heads, kv_heads, head_size, intermediate, epsilon, rope_theta: as of the target.
    """

    kind: Kind
    layers: tuple[int, ...]
    depth: int
    vocabulary: int
    window: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    epsilon: float
    rope_theta: float

    @staticmethod
    def for_target(
        config: Any, kind: Kind, layers: Sequence[int], *, depth: int, vocabulary: int, window: int
    ) -> Shape:
        """From a transformers configuration.

        Raises:
            ConfigError: for a target whose layers a head does not imitate.
        """
        if config.model_type not in _FAMILY:
            raise ConfigError(f"a head needs a target of {', '.join(_FAMILY)}, not {config.model_type}")
        if not layers or max(layers) > config.num_hidden_layers or layers[-1] != config.num_hidden_layers:
            raise ConfigError(
                f"layers must be between 0 and {config.num_hidden_layers} and end with that", field="layers"
            )
        if not 0 < window <= MOST_POSITIONS:
            raise ConfigError(f"window must be between 1 and {MOST_POSITIONS}", field="window")
        heads = config.num_attention_heads
        return Shape(
            kind=kind,
            layers=tuple(layers),
            depth=depth,
            vocabulary=vocabulary,
            window=window,
            hidden=config.hidden_size,
            heads=heads,
            kv_heads=config.num_key_value_heads,
            head_size=getattr(config, "head_dim", None) or config.hidden_size // heads,
            intermediate=config.intermediate_size,
            epsilon=config.rms_norm_eps,
            rope_theta=float(config.rope_parameters["rope_theta"]),
        )

    @staticmethod
    def from_json(values: dict[str, Any]) -> Shape:
        """Raises ConfigError when a field is missing or unknown."""
        if set(values) != {field.name for field in fields(Shape)}:
            raise ConfigError(f"a head's shape has the fields {sorted(values)}", field="head")
        return Shape(**(values | {"layers": tuple(values["layers"])}))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
