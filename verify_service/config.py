"""What ``TANDEM_VERIFY_*`` may say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from common.config import LogLevel, Port, Positive, RedisUrl
from common.errors import ConfigError, InvalidRequest
from common.model.names import BackendName, WeightsName
from common.trees import MAX_WIDTH
from common.types import LOSSLESS, PolicyChoice
from verify_service.acceptance import embedding, policies
from verify_service.drafts.control.registry import PolicyName

_POLICY: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, str | float])
Milliseconds = Annotated[float, Field(ge=0, le=60_000)]


@dataclass(frozen=True)
class Config:
    """Defaults suit the embedded model on one machine.

    Attributes:
        model: the embedded model's name, a folder of safetensors, a .gguf file, or a hub name.
        model_name: what clients call it; empty: the last part of ``model``.
        weights: the format they are computed in.
        backend: ``fused`` is the kernel, ``general`` transformers' own modules.
        threads: that compute; 0: one per core.
        kv_tokens: size of the KV pool.
        prefix_caching: whether a request starts on what was computed for others with the same beginning.
        max_batch_tokens: most tokens of one packed pass; longer prompts are prefilled in chunks.
        controller: what decides how many guesses a block has: measured throughput, a window over the last
            blocks' acceptance, or nothing, as many as there may be.
        block_size: most guesses asked for per block when a request does not say.
        tree_width: guesses that may follow the same text when a request does not say; 1: chains.
        policy: how guesses are judged where a request does not say: ``lossless``, the name of a lossy policy,
            or a JSON object with its name and parameters.
        min_batch: fewest sequences running with which drafts are used.
        max_batch: most; 0: any number.
        min_confidence: where a draft is less sure of its guesses together, a block ends.
        ahead: most blocks per sequence that a draft may send before it is known whether they will be of use,
            while that pays; 0: never any.
        draft_wait_ms: longest a step waits for drafts.
        tag_wait_ms: longest a step waits for fact-check verdicts on blocks that may be vetoed. Timers tick in
            whole milliseconds, rounded up: what wakes the loop meanwhile may make it longer, by under one.
        settle_wait_ms: longest a finished answer waits for outstanding fact-check verdicts.
        validate_ms: longest a step waits for validators.
        grammar_seconds: longest that one grammar of a request, or its validators, may take to be checked.
        hidden_layers: whose outputs drafts are sent, for heads that read them; 0 is the embedding, the last
            one is taken after the final norm; empty: none.
        lookahead_window: columns of the window that a pass looks ahead with where a plan names no drafts;
            0: no lookahead.
        lookahead_ngram: tokens of the n-grams that this finds; the window has as many levels less one.
        redis_url: where fact-check tags and switches come from and feedback goes to; empty: fact checks are
            refused, and the router learns nothing.
        feedback_sampled: share of answers of which it is also reported how likely the target finds them, and
            how close in meaning what was drafted is to what they say.
        distil_sampled: share of answers whose tokens are published for whoever trains drafts, with what the
            target found likeliest at each; needs ``redis_url``.
        distil_salted: whether answers to requests with a ``cache_salt`` may be among them.
    """

    host: str = "127.0.0.1"
    port: Port = 50052
    metrics_port: Port = 9102
    model: str = "smollm2-135m-instruct"
    model_name: str = ""
    device: str = "auto"
    weights: WeightsName = "auto"
    backend: BackendName = "auto"
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    kv_tokens: Annotated[int, Field(ge=64)] = 32_768
    prefix_caching: bool = True
    max_running: Positive = 16
    max_waiting: Positive = 256
    max_batch_tokens: Annotated[int, Field(ge=16)] = 512
    controller: PolicyName = "throughput"
    block_size: Annotated[int, Field(ge=1, le=64)] = 8
    max_block_size: Annotated[int, Field(ge=1, le=64)] = 64
    tree_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 1
    max_tree_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = MAX_WIDTH
    policy: str = LOSSLESS
    min_batch: Positive = 1
    max_batch: Annotated[int, Field(ge=0)] = 0
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.25
    ahead: Annotated[int, Field(ge=0, le=8)] = 3
    draft_wait_ms: Milliseconds = 50.0
    tag_wait_ms: Milliseconds = 1.0
    settle_wait_ms: Milliseconds = 50.0
    validate_ms: Milliseconds = 5.0
    grammar_seconds: Annotated[float, Field(gt=0, le=60)] = 2.0
    hidden_layers: tuple[Annotated[int, Field(ge=0, le=1024)], ...] = ()
    lookahead_window: Annotated[int, Field(ge=0, le=32)] = 0
    lookahead_ngram: Annotated[int, Field(ge=3, le=8)] = 4
    redis_url: RedisUrl = ""
    feedback_sampled: Annotated[float, Field(ge=0, le=1)] = 0.02
    distil_sampled: Annotated[float, Field(ge=0, le=1)] = 0.0
    distil_salted: bool = False
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0
    log_level: LogLevel = "info"

    def __post_init__(self) -> None:
        if self.distil_sampled and not self.redis_url:
            field = "TANDEM_VERIFY_DISTIL_SAMPLED"
            raise ConfigError(f"{field}: samples need TANDEM_VERIFY_REDIS_URL", field=field)
        _check_at_most("BLOCK_SIZE", self.block_size, self.max_block_size)
        _check_at_most("TREE_WIDTH", self.tree_width, self.max_tree_width)
        _ = self.default_policy
        if self.max_batch:
            _check_at_most("MIN_BATCH", self.min_batch, self.max_batch, "MAX_BATCH")

    @property
    def default_policy(self) -> PolicyChoice:
        """Raises ConfigError where ``policy`` is none."""
        given: object = {"name": self.policy}
        try:
            if self.policy.startswith("{"):
                given = json.loads(self.policy)
            written = _POLICY.validate_python(given)
            choice = PolicyChoice(written.pop("name"), written)
            policies.make(choice, policies.Resources(str, embedding.load))
        except (ValueError, KeyError, InvalidRequest) as error:
            reason = getattr(error, "message", "") or "neither a name nor a JSON object with name and numbers"
            field = "TANDEM_VERIFY_POLICY"
            raise ConfigError(f"{field}: {reason}", field=field) from None
        return choice

    @property
    def served_name(self) -> str:
        return self.model_name or self.model.rstrip("/").rsplit("/", 1)[-1]


def _check_at_most(name: str, value: int, most: int, most_name: str = "") -> None:
    if value > most:
        field = f"TANDEM_VERIFY_{name}"
        limit = f"TANDEM_VERIFY_{most_name or f'MAX_{name}'}"
        raise ConfigError(f"{field} ({value}) exceeds {limit} ({most})", field=field)
