"""What ``TANDEM_DRAFT_*`` may say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from common.config import LogLevel, Port, Positive, RedisUrl
from common.errors import ConfigError
from common.model.names import BackendName, WeightsName
from draft_service.sources.registry import MODULES


@dataclass(frozen=True)
class Config:
    """
    Attributes:
        source: one name, or several joined by commas, which make a pool. ``ngram`` looks the last tokens up
            in the session's own text; ``suffix`` also in the tenant's recent answers and in templates;
            ``retrieval`` in a datastore of documents; ``rules`` matches the text with expressions; ``self``
            runs the target's first layers with its head;
            ``model`` runs a smaller model; ``cascade`` has a model filter the guesses of a cheaper source;
            ``eagle`` and ``medusa`` run a trained head on the target's hidden states.
        model: the target, as the verify service names it; ``ngram`` reads its tokenizer only.
        draft_model: the smaller model of ``model``, named like ``model``.
        vocabulary_file: the tokens that the head of ``draft_model`` keeps, JSON or safetensors; empty: all.
        pool: ``merge`` puts the guesses of all sources into one tree; ``best`` asks the one that does best;
            ``rounds`` asks the next after a rejection.
        cascade_tiny, cascade_middle: the sources that guess and filter in ``cascade``.
        cascade_threshold: the belief of ``cascade_middle`` from which on a guess stands.
        head: a file of the head of ``eagle`` or ``medusa``; empty: the one shipped for the target.
        versions: a folder of versions of that head, the current one of which is taken up while drafts go on;
            empty: none.
        layers: how many of the target's layers ``self`` keeps.
        max_ngram, min_ngram: longest and shortest tail ``ngram`` looks up.
        suffix_tokens, suffix_tenant_tokens, suffix_tenants: most tokens of answers that ``suffix`` keeps, of
            one tenant and of all, and of how many tenants.
        templates: a file of texts for ``suffix``, between lines of three dashes; empty: none.
        datastore: the folder of ``retrieval``, as ``python -m draft_service.datastore`` makes it.
        rules: a TOML file for ``rules``; empty: the packaged one.
        kv_tokens: size of the KV pool of each source that runs a model.
        prefill_tokens: most tokens per session that one drafting round of such a source prefills.
        weights, backend, threads: of draft models, as of the verify service; a head has ``int8`` where
            ``auto`` says, and one thread where 0 does.
        redis_url: where blocks to be fact-checked are published; empty: nowhere.
    """

    host: str = "127.0.0.1"
    port: Port = 50053
    metrics_port: Port = 9103
    source: str = "ngram"
    model: str = "smollm2-135m-instruct"
    draft_model: str = ""
    vocabulary_file: str = ""
    pool: Literal["merge", "best", "rounds"] = "merge"
    cascade_tiny: str = "ngram"
    cascade_middle: Literal["self", "model"] = "self"
    cascade_threshold: Annotated[float, Field(ge=0, le=1)] = 0.1
    device: str = "auto"
    weights: WeightsName = "auto"
    backend: BackendName = "auto"
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    head: str = ""
    versions: str = ""
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
            raise _bad("MIN_NGRAM", f"{self.min_ngram} exceeds TANDEM_DRAFT_MAX_NGRAM ({self.max_ngram})")
        for name in self.sources:
            _check_name("SOURCE", name, MODULES)
        if len(set(self.sources)) < len(self.sources):
            raise _bad("SOURCE", "a source is named twice")
        _check_name("CASCADE_TINY", self.cascade_tiny, MODULES.keys() - {"cascade", self.cascade_middle})
        if "model" in self._made and not self.draft_model:
            raise _bad("DRAFT_MODEL", "the source model needs the name of one")

    @property
    def sources(self) -> tuple[str, ...]:
        """The names in ``source``."""
        return tuple(name.strip() for name in self.source.split(","))

    @property
    def _made(self) -> tuple[str, ...]:
        """``sources``, and those that are made for another."""
        inner = (self.cascade_tiny, self.cascade_middle) if "cascade" in self.sources else ()
        return (*self.sources, *inner)


def _check_name(variable: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise _bad(variable, f"{name!r} is none of {', '.join(sorted(known))}")


def _bad(variable: str, message: str) -> ConfigError:
    return ConfigError(f"TANDEM_DRAFT_{variable}: {message}", field=f"TANDEM_DRAFT_{variable}")
