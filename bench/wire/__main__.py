"""``python -m bench.wire``: the stack with a slow wire between verify and draft.

For every length of the wire there is a stack that may draft ahead and one that never does; all of them run at
once and take turns, with one stream. Each learns for itself whether going ahead pays. Every step asks for
guesses and waits for them, so that what it waits is what is not hidden.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product

from bench import racing, stopping
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
_LONGEST_TRIP = 500  # milliseconds; the budget of a wait is twice that


def main() -> None:
    options = _options()
    stopping.as_after_ctrl_c()
    print(asyncio.run(_measured(options)))


async def _measured(options: argparse.Namespace) -> str:
    async with AsyncExitStack() as running:
        found: dict[table.Cell, Slowed] = {}
        for way, trip in product(options.drafting, options.round_trips):
            racing.say(f"starting the stack that drafts {way}, {trip:g} ms")
            found[way, trip / 1000] = await running.enter_async_context(_slowed(way, trip, options))
        results = await race.run(list(found.values()), racing.course(options, streams=(1,)), racing.say)
    speeds = {cell: results.speeds[1][slowed.row.name] for cell, slowed in found.items()}
    return table.text({cell: slowed.spent for cell, slowed in found.items()}, speeds)


@asynccontextmanager
async def _slowed(way: str, milliseconds: float, options: argparse.Namespace) -> AsyncIterator[Slowed]:
    wire = SlowWire(milliseconds / 2000)
    async with wire.listening() as address:
        stack = LocalStack(options.sources.pools(address), _environment(way, options))
        wire.port = stack.stack.ports.draft
        speculation = options.sources.speculation(options.block_size, options.tree_width)
        async with _running(stack), engines.stack(Row(way), stack.url, speculation) as inner:
            if options.pin:
                pinning.separate(stack)
            await racing.warm_up(inner, options)
            yield Slowed(Row(f"{way}, {milliseconds:g} ms", prefills=False), inner, stack, wire)


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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.wire", description=__doc__)
    racing.add_options(parser)
    parser.add_argument(
        "--round-trips",
        type=_milliseconds,
        nargs="+",
        default=[1, 5, 20],
        help="in milliseconds, beside 0; each takes about a gigabyte of memory for each way of drafting",
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
    if not 0 <= value <= _LONGEST_TRIP:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_LONGEST_TRIP}")
    return value


if __name__ == "__main__":
    main()
