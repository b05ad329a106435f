"""What ``TANDEM_FACT_CHECK_*`` sets."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from common.config import LogLevel, Port
from common.errors import ConfigError

_BLOCK_MS = 5
"""Far above what any check computes for a block."""


def _consumer_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Config:
    """
    Attributes:
        consumer: must differ between living workers.
        claim_idle_ms: entries that were pending at another worker for longer are taken over. A batch must be
            settled in this time, see ``slowest_batch_ms``.
        max_age_ms: blocks drafted longer ago get no verdict.
        checks: which checks there are; of a claim the first that has an opinion is heard.
        check_ms: longest that one check may take for a block.
        rules_path: of the check ``rules``; empty: the packaged rules.
        knowledge: of the check ``knowledge``: a file that ``python -m fact_check_service.knowledge`` made.
        wikidata_url: of the check ``wikidata``; its host must be one of ``wikidata_hosts``.
        wikidata_private: whether that host may have a private address.
        wikidata_timeout_ms: longest for one request, retries not counted.
        wikidata_max_bytes: of one answer.
        wikidata_cache_seconds, wikidata_negative_seconds: how long Redis keeps what was found, and that
            there is nothing.
        metrics_port: 0: off.
    """

    redis_url: Annotated[str, Field(pattern=r"^(rediss?|unix)://")] = "redis://127.0.0.1:6379/0"
    consumer: Annotated[str, Field(min_length=1)] = field(default_factory=_consumer_name)
    batch_size: Annotated[int, Field(ge=1, le=1_000)] = 64
    read_block_ms: Annotated[int, Field(ge=1, le=10_000)] = 500
    claim_idle_ms: Annotated[int, Field(ge=1)] = 5_000
    claim_every_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    max_age_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 10_000
    checks: Annotated[tuple[str, ...], Field(min_length=1, max_length=16)] = ("rules", "prompt")
    check_ms: Annotated[int, Field(ge=1, le=60_000)] = 500
    rules_path: str = ""
    knowledge: str = ""
    wikidata_url: Annotated[str, Field(pattern=r"^https?://[^/@\s]+(/\S*)?$")] = (
        "https://www.wikidata.org/w/api.php"
    )
    wikidata_hosts: Annotated[tuple[str, ...], Field(min_length=1)] = ("www.wikidata.org",)
    wikidata_private: bool = False
    wikidata_timeout_ms: Annotated[int, Field(ge=1, le=60_000)] = 300
    wikidata_max_bytes: Annotated[int, Field(ge=1_024)] = 8 * 2**20
    wikidata_cache_seconds: Annotated[int, Field(ge=1)] = 7 * 86_400
    wikidata_negative_seconds: Annotated[int, Field(ge=1)] = 3_600
    metrics_port: Port = 9104
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 10.0
    log_level: LogLevel = "info"

    def __post_init__(self) -> None:
        if self.claim_idle_ms <= self.slowest_batch_ms:
            name = "TANDEM_FACT_CHECK_CLAIM_IDLE_MS"
            why = f"{self.claim_idle_ms} must exceed the {self.slowest_batch_ms} that a batch may take"
            how = f"CHECK_MS for each of CHECKS and {_BLOCK_MS} for each block of BATCH_SIZE"
            raise ConfigError(f"{name}: {why}: {how}", field=name)

    @property
    def slowest_batch_ms(self) -> int:
        """The blocks of a batch wait for their checks side by side; only what is computed adds up."""
        return self.check_ms * len(self.checks) + _BLOCK_MS * self.batch_size
