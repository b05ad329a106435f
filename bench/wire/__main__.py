"""``python -m bench.wire``: the stack with a slow wire between verify and draft.

A stack that drafts ahead and one that does not run at once and take turns, each over every length of its
wire, with one stream. Every step asks for guesses and waits for them, so that what it waits is what is not
hidden.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench import racing
from bench.measure import ALWAYS_PREFILL
from bench.peers import engines, race
from bench.peers.contestant import Row
from bench.setups import Setup
from bench.wire import pinning, table
from bench.wire.proxy import SlowWire
from bench.wire.slowed import Slowed
from tandem.local import LocalStack

_WAYS: dict[str, dict[str, str]] = {"ahead": {}, "in turn": {"TANDEM_VERIFY_AHEAD": "0"}}
_ALWAYS_WAIT = {"TANDEM_VERIFY_CONTROLLER": "fixed", "TANDEM_VERIFY_DRAFT_WAIT_MS": "1000"}


def main() -> None:
    options = _options()
    print(asyncio.run(_measured(options)))


async def _measured(options: argparse.Namespace) -> str:
    async with AsyncExitStack() as running:
        found: dict[table.Cell, Slowed] = {}
        for way in options.drafting:
            racing.say(f"starting the stack that drafts {way}")
            found |= await running.enter_async_context(_contestants(way, options))
        results = await race.run(list(found.values()), racing.course(options, streams=(1,)), racing.say)
    speeds = {cell: results.speeds[1][slowed.row.name] for cell, slowed in found.items()}
    return table.text({cell: slowed.spent for cell, slowed in found.items()}, speeds)


@asynccontextmanager
async def _contestants(way: str, options: argparse.Namespace) -> AsyncIterator[dict[table.Cell, Slowed]]:
    """One stack's, one for each length of its wire."""
    wire = SlowWire()
    async with wire.listening() as address:
        stack = LocalStack(options.sources.pools(address), _environment(way, options))
        wire.port = stack.stack.ports.draft
        speculation = options.sources.speculation(options.block_size, options.tree_width)
        async with _running(stack), engines.stack(Row(way), stack.url, speculation) as inner:
            if options.pin:
                pinning.separate(stack)
            yield {
                (way, trip / 1000): Slowed(_row(way, trip), inner, stack, wire, trip / 1000)
                for trip in options.round_trips
            }


@asynccontextmanager
async def _running(stack: LocalStack) -> AsyncIterator[None]:
    """It starts and stops in a thread: its wire works in this one."""
    await asyncio.to_thread(stack.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(stack.__exit__, *sys.exc_info())


def _environment(way: str, options: argparse.Namespace) -> dict[str, str]:
    sources: Setup = options.sources
    told = _ALWAYS_WAIT | {"TANDEM_VERIFY_WEIGHTS": options.weights} | _WAYS[way]
    threads = pinning.ONE_THREAD if options.pin else {}
    return ALWAYS_PREFILL | sources.environment() | told | threads


def _row(way: str, milliseconds: float) -> Row:
    return Row(f"{way}, {milliseconds:g} ms", prefills=False)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.wire", description=__doc__)
    racing.add_options(parser)
    parser.add_argument(
        "--round-trips", type=_milliseconds, nargs="+", default=[1, 5, 20], help="in milliseconds, beside 0"
    )
    parser.add_argument("--drafting", nargs="+", choices=_WAYS, default=list(_WAYS))
    parser.add_argument(
        "--pin", action="store_true", help="verify and draft on a core and with a thread of their own"
    )
    options = parser.parse_args()
    options.round_trips = sorted({0.0, *options.round_trips})
    return options


def _milliseconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1000")
    return value


if __name__ == "__main__":
    main()
