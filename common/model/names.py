"""What configuration may call weights and backends; apart from what loads them, which needs torch."""

from __future__ import annotations

from typing import Literal

WeightsName = Literal["auto", "float32", "bfloat16", "float16", "int8", "int4"]
BackendName = Literal["auto", "fused", "general"]
