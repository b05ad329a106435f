"""Ask the stack each prompt with and without drafts, in turn, and keep what it says of itself."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.prompts import Prompt
from tandem.local import LocalStack
from tandem.stack import HOST

MODEL = "smollm2-135m-instruct"
ALWAYS_PREFILL = {"TANDEM_VERIFY_PREFIX_CACHING": "false"}
"""Of a measured stack: the second answer to a prompt must cost what the first one did."""


@dataclass(frozen=True)
class Run:
    """One prompt, answered greedily. ``seconds`` is the median over the repeats."""

    group: str
    tokens: int
    seconds: float
    text: str
    speculation: Mapping[str, Any]
    deviation: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Rounds:
    """``phases``: mean seconds of a verify step's parts, over the runs with drafts."""

    plain: list[Run]
    drafted: list[Run]
    phases: dict[str, float]


async def compare(
    stack: LocalStack, prompts: Sequence[Prompt], max_tokens: int, block_size: int, repeats: int
) -> Rounds:
    """Plain and drafted runs alternate, so that a slow spell of the machine meets both."""
    plain, drafted = [], []
    sums: dict[str, float] = {}
    async with client(stack) as connected:
        await _ask(connected, prompts[0], 8, {"block_size": block_size})
        for prompt in prompts:
            plain.append(await run(connected, prompt, max_tokens, {"enabled": False}, repeats))
            before = await scrape(stack)
            drafted.append(await run(connected, prompt, max_tokens, {"block_size": block_size}, repeats))
            for name, value in (await scrape(stack)).items():
                sums[name] = sums.get(name, 0) + value - before.get(name, 0)
    return Rounds(plain, drafted, _phases(sums))


def client(stack: LocalStack) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=stack.url, timeout=600)


async def run(
    connected: httpx.AsyncClient,
    prompt: Prompt,
    max_tokens: int,
    speculation: Mapping[str, Any],
    repeats: int = 1,
) -> Run:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        answer = await _ask(connected, prompt, max_tokens, speculation)
        times.append(time.perf_counter() - started)
    return Run(
        group=prompt.group,
        tokens=answer["usage"]["completion_tokens"],
        seconds=statistics.median(times),
        text=answer["choices"][0]["message"]["content"],
        speculation=answer["tandem"]["speculation"],
        deviation=answer["tandem"]["deviation"],
    )


def chat_body(text: str, max_tokens: int, speculation: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Of a chat request, greedy unless ``fields`` say otherwise."""
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "speculation": speculation,
        **fields,
    }


async def _ask(
    connected: httpx.AsyncClient, prompt: Prompt, max_tokens: int, speculation: Mapping[str, Any]
) -> dict[str, Any]:
    body = chat_body(prompt.text, max_tokens, speculation)
    response = await connected.post("/v1/chat/completions", json=body)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer


async def scrape(stack: LocalStack) -> dict[str, float]:
    """The verify service's counters and histogram sums, by name with phase or outcome, over other labels."""
    async with httpx.AsyncClient() as connected:
        text = (await connected.get(f"http://{HOST}:{stack.stack.ports.verify_metrics}/metrics")).text
    return totals(text)


def totals(text: str) -> dict[str, float]:
    """Of metrics in Prometheus' format, as ``scrape`` has them."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith(("_bucket", "_created")):
                name = sample.name + sample.labels.get("phase", "") + sample.labels.get("outcome", "")
                found[name] = found.get(name, 0.0) + sample.value
    return found


def _phases(sums: Mapping[str, float]) -> dict[str, float]:
    """Draft and wire per block, the rest per step. The wire is what the round trip adds to drafting."""
    steps = max(sums["tandem_verify_steps_total"], 1)
    blocks = max(sums["tandem_draft_round_trip_seconds_count"], 1)
    drafting = sums["tandem_draft_drafting_seconds_sum"] / blocks
    return {
        "draft": drafting,
        "wire": sums["tandem_draft_round_trip_seconds_sum"] / blocks - drafting,
        "verify": sums["tandem_verify_step_seconds_summodel"] / steps,
        "acceptance": sums["tandem_verify_step_seconds_sumaccept"] / steps,
        "waiting": sums["tandem_verify_step_seconds_sumwait"] / steps,
    }
