"""What ``TANDEM_DRAFT_*`` may say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from common.config import LogLevel, Port, Positive, RedisUrl
from common.errors import ConfigError
from common.model.names import BackendName, WeightsName


@dataclass(frozen=True)
class Config:
    """
    Attributes:
        source: ``ngram`` looks the last tokens up in the session's own text; ``suffix`` also in the tenant's
            recent answers and in templates; ``retrieval`` in a datastore of documents; ``rules``
            matches them with expressions; ``self`` runs the target's first layers with its head.
        model: the target, as the verify service names it; others than ``self`` read its tokenizer only.
        layers: how many of the target's layers ``self`` keeps.
        max_ngram, min_ngram: longest and shortest tail ``ngram`` looks up.
        suffix_tokens, suffix_tenant_tokens, suffix_tenants: most tokens of answers that ``suffix`` keeps, of
            one tenant and of all, and of how many tenants.
        templates: a file of texts for ``suffix``, between lines of three dashes; empty: none.
        datastore: the folder of ``retrieval``, as ``python -m draft_service.datastore`` makes it.
        rules: a TOML file for ``rules``; empty: the packaged one.
        kv_tokens: size of the KV pool of ``self``.
        prefill_tokens: most tokens per session that one drafting round of ``self`` prefills.
        weights, backend, threads: of ``self``, as of the verify service.
        redis_url: where blocks to be fact-checked are published; empty: nowhere.
    """

    host: str = "127.0.0.1"
    port: Port = 50053
    metrics_port: Port = 9103
    source: Literal["ngram", "suffix", "retrieval", "rules", "self"] = "ngram"
    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    weights: WeightsName = "auto"
    backend: BackendName = "auto"
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    layers: Positive = 8
    max_ngram: Annotated[int, Field(ge=1, le=16)] = 4
    min_ngram: Annotated[int, Field(ge=1, le=16)] = 1
    suffix_tokens: Positive = 524_288
    suffix_tenant_tokens: Positive = 65_536
    suffix_tenants: Positive = 256
    templates: str = ""
    datastore: str = ""
    rules: str = ""
    kv_tokens: Annotated[int, Field(ge=64)] = 32_768
    prefill_tokens: Annotated[int, Field(ge=16)] = 256
    max_sessions: Positive = 256
    redis_url: RedisUrl = ""
    drain_seconds: Annotated[float, Field(ge=0, le=3600)] = 10.0
    log_level: LogLevel = "info"

    def __post_init__(self) -> None:
        if self.min_ngram > self.max_ngram:
            raise ConfigError(
                f"TANDEM_DRAFT_MIN_NGRAM ({self.min_ngram}) exceeds "
                f"TANDEM_DRAFT_MAX_NGRAM ({self.max_ngram})",
                field="TANDEM_DRAFT_MIN_NGRAM",
            )
