"""``python -m bench.in_process``: a draft in the verify service's process beside the same one over gRPC.

Both stacks run at once and take turns. In the first one the draft service only stands by, so that the router
names it; ``bench.in_process.verify`` drafts for itself.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import get_args

from bench import racing, stopping
from bench.measure import ALWAYS_PREFILL
from bench.peers import engines, race, table
from bench.peers.contestant import STREAMS, Row
from tandem.local import LocalStack
from verify_service.drafts.control.registry import PolicyName

_IN_PROCESS, _OVER_GRPC, _PLAIN = "in process", "over gRPC", "no drafts"
_MODULES = {_IN_PROCESS: "bench.in_process.verify", _OVER_GRPC: "verify_service"}


def main() -> None:
    options = _options()
    stopping.as_after_ctrl_c()
    with ExitStack() as stacks:
        running = {name: stacks.enter_context(_stack(module, options)) for name, module in _MODULES.items()}
        results = asyncio.run(_raced(running, options))
    print(table.text(results, [_IN_PROCESS], {}))


def _stack(module: str, options: argparse.Namespace) -> LocalStack:
    environment = {
        "TANDEM_VERIFY_WEIGHTS": options.weights,
        "TANDEM_VERIFY_CONTROLLER": options.controller,
        "TANDEM_DRAFT_SOURCE": options.sources.sources,
    }
    environment |= ALWAYS_PREFILL | options.sources.environment()
    return LocalStack(options.sources.pools(), environment, verify_module=module)


async def _raced(running: Mapping[str, LocalStack], options: argparse.Namespace) -> race.Results:
    speculation = options.sources.speculation(options.block_size, options.tree_width)
    asked = {name: (stack.url, speculation) for name, stack in running.items()}
    asked[_PLAIN] = (running[_OVER_GRPC].url, {"enabled": False})
    async with AsyncExitStack() as clients:
        contestants = [
            await clients.enter_async_context(engines.stack(Row(name, prefills=False), *how))
            for name, how in asked.items()
        ]
        for each in contestants:
            await racing.warm_up(each, options)
        return await race.run(contestants, racing.course(options, options.streams), racing.say)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.in_process", description=__doc__)
    racing.add_options(parser)
    parser.add_argument("--streams", type=int, nargs="+", choices=STREAMS, default=STREAMS)
    parser.add_argument("--controller", choices=get_args(PolicyName), default="fixed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
