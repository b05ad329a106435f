from __future__ import annotations

from bench.fact_check import waiting
from tests.support.valkey import Valkey


async def test_a_step_waits_for_the_verdicts_on_all_its_blocks(valkey: Valkey) -> None:
    waits = await waiting.run(valkey.url, 5, 3, workers=1, seed=3, budget_seconds=30, lead_seconds=0)
    assert (len(waits.seconds), waits.blocks, waits.in_time) == (5, 15, 15)
    assert waits.quantile(0.5) <= waits.quantile(1.0) < 30


async def test_where_nobody_checks_a_step_goes_on_without_verdicts(valkey: Valkey) -> None:
    waits = await waiting.run(valkey.url, 5, 1, workers=0, seed=3, budget_seconds=0.01, lead_seconds=0)
    assert (waits.blocks, waits.in_time) == (5, 0)
    assert waits.quantile(0.0) > 0.005
