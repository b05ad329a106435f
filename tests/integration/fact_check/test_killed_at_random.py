from __future__ import annotations

from bench.fact_check import trial
from tests.support.valkey import Valkey


async def test_workers_killed_at_random_store_every_verdict_once(valkey: Valkey) -> None:
    outcome = await trial.run(valkey.url, blocks=2_000, workers=2, kills=8, seed=11)
    assert outcome.kills >= 4
    assert outcome.exact, outcome
