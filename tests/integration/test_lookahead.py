"""The verify service by itself, without a draft service or a router: it guesses by looking ahead."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from common import rpc
from common.types import Finished, GenerateRequest, SamplingParams, Stopping
from gateway.verify_client import VerifyClient
from tandem.local import free_ports
from tests.support.models import reference_greedy, save_tiny, tiny_model
from tests.support.scripted import Answer

SEED = 11
PROMPT = [3, 7, 4, 7, 3, 7]
LENGTH = 60
SETTINGS = {"TANDEM_VERIFY_CONTROLLER": "fixed", "TANDEM_VERIFY_METRICS_PORT": "0"}


@asynccontextmanager
async def verify_service(folder: Path, **variables: str) -> AsyncIterator[str]:
    """As an operator starts it; its address."""
    address = f"127.0.0.1:{(port := free_ports(0).verify)}"
    own = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_VERIFY_")}
    given = {"TANDEM_VERIFY_MODEL": str(folder), "TANDEM_VERIFY_PORT": str(port), **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "verify_service", env={**own, **SETTINGS, **given}
    )
    try:
        async with asyncio.timeout(90):
            while not await rpc.healthy(address):
                assert process.returncode is None
                await asyncio.sleep(0.1)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)


async def ask(address: str, request_id: str) -> Answer:
    request = GenerateRequest(
        request_id,
        list(PROMPT),
        SamplingParams(temperature=0),
        Stopping(max_tokens=LENGTH, ignore_eos=True),
    )
    client = VerifyClient(60)
    try:
        return Answer([event async for event in client.generate(address, request)])
    finally:
        await client.close()


@pytest.mark.timeout(180)
async def test_a_verify_service_alone_guesses_and_says_what_the_target_says(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_tiny(folder, SEED)
    variables = {
        "TANDEM_VERIFY_LOOKAHEAD_WINDOW": "3",
        "TANDEM_VERIFY_WEIGHTS": "float32",
        "TANDEM_VERIFY_KV_TOKENS": "512",
    }
    async with verify_service(folder, **variables) as address:
        answers = await asyncio.gather(*(ask(address, str(index)) for index in range(3)))
    expected = reference_greedy(tiny_model(SEED, attention="sdpa"), PROMPT, LENGTH)
    assert [answer.token_ids for answer in answers] == [expected] * 3
    finished = [answer.events[-1] for answer in answers]
    assert all(isinstance(event, Finished) and event.stats.accepted_tokens > 0 for event in finished)
    assert {made.source for answer in answers for made in answer.provenance} == {"", "lookahead"}
