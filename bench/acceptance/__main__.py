"""``python -m bench.acceptance none ngram ngram,eagle``: tokens per verify step by setup and kind of prompt.

Every setup runs in a stack of its own, one after the other; answers are greedy. Without a setup only the
tables and the plot of what ``--results`` holds are made.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import httpx

from bench import measure, prompts, runners, stopping
from bench.acceptance import records, table
from bench.acceptance.records import Record
from bench.prompts import Prompt
from bench.setups import Setup
from tandem.local import LocalStack
from verify_service.drafts.control.registry import PolicyName

_PATIENT = {"TANDEM_VERIFY_DRAFT_WAIT_MS": "5000"}
"""With ``fixed`` every block is waited for, so that a slow machine changes no count."""


def main() -> None:
    options = _options()
    stopping.as_after_ctrl_c()
    made: list[Record] = []
    for setup in options.setups:
        measured = _measured(setup, options)
        made += measured
        if options.results:
            records.append(options.results, measured)
    if options.results:
        made = records.read(options.results)
    labelled = records.by_label(made)
    print(table.text(labelled))
    if options.plot:
        _plot(labelled, options.plot)


def _measured(setup: Setup, options: argparse.Namespace) -> list[Record]:
    print(f"measuring {setup.sources}", file=sys.stderr, flush=True)
    chosen = prompts.load(options.prompts, options.per_group)
    environment = measure.ALWAYS_PREFILL | setup.environment() | _environment(options)
    with LocalStack(setup.pools(), environment) as stack:
        runs = asyncio.run(_answers(stack, chosen, setup.speculation(**_shape(options)), options))
    return [
        Record(setup.sources, _settings(options), run.group, run.tokens, run.seconds, run.speculation)
        for run in runs
    ]


async def _answers(
    stack: LocalStack, chosen: Sequence[Prompt], speculation: Any, options: argparse.Namespace
) -> list[measure.Run]:
    gate = asyncio.Semaphore(options.concurrency)

    async def one(client: httpx.AsyncClient, prompt: Prompt) -> measure.Run:
        async with gate:
            return await measure.run(client, prompt, options.max_tokens, speculation)

    async with measure.client(stack) as client:
        return await asyncio.gather(*(one(client, prompt) for prompt in chosen))


def _environment(options: argparse.Namespace) -> dict[str, str]:
    told = {"TANDEM_VERIFY_CONTROLLER": options.controller, "TANDEM_VERIFY_WEIGHTS": options.weights}
    return told | (_PATIENT if options.controller == "fixed" else {})


def _shape(options: argparse.Namespace) -> dict[str, int]:
    return {"block_size": options.block_size, "tree_width": options.tree_width}


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    named = ("controller", "weights", "max_tokens", "concurrency")
    return _shape(options) | {name: getattr(options, name) for name in named}


def _plot(labelled: dict[str, list[Record]], path: Path) -> None:
    from bench.acceptance import plot  # noqa: PLC0415 – matplotlib is an extra

    plot.draw(table.tokens_per_step(labelled), path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.acceptance", description=__doc__)
    prompts.add_options(parser, per_group=40)
    parser.add_argument("setups", nargs="*", type=Setup.parse, help="none, a source, or several with commas")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--tree-width", type=int, default=1)
    parser.add_argument("--controller", choices=get_args(PolicyName), default="fixed")
    parser.add_argument("--weights", choices=runners.WEIGHTS, default="int8", help="of the target")
    parser.add_argument("--concurrency", type=int, default=1, help="prompts at once")
    parser.add_argument("--results", type=Path, help="a file of JSON lines, one per answer, that is added to")
    parser.add_argument("--plot", type=Path, help="also draw the means, as .svg or .png")
    options = parser.parse_args()
    if not options.setups and not options.results:
        parser.error("name a setup, or with --results what was measured before")
    return options


if __name__ == "__main__":
    main()
