"""``python -m bench.policies lossless kl kl:delta=0.3 typical``: speed against deviation.

All policies are asked of one stack, each prompt under each of them in turn; answers are greedy.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from bench import measure, prompts, stopping
from bench.measure import Run
from bench.policies import table
from bench.policies.choices import DEFAULTS, Choice
from bench.prompts import Prompt
from bench.setups import Setup
from tandem.local import LocalStack
from verify_service.drafts.control.registry import PolicyName


def main() -> None:
    options = _options()
    stopping.as_after_ctrl_c()
    chosen = prompts.load(options.prompts, options.per_group)
    setup: Setup = options.sources
    environment = measure.ALWAYS_PREFILL | setup.environment()
    environment |= {"TANDEM_VERIFY_WEIGHTS": options.weights, "TANDEM_VERIFY_CONTROLLER": options.controller}
    with LocalStack(setup.pools(), environment) as stack:
        runs = asyncio.run(_answers(stack, chosen, options))
    found = {choice.label: table.figures(runs[choice.label]) for choice in options.policies}
    print(table.text(found))
    if options.plot:
        from bench.policies import plot  # noqa: PLC0415 – matplotlib is an extra

        plot.draw(found, options.plot)


async def _answers(
    stack: LocalStack, chosen: Sequence[Prompt], options: argparse.Namespace
) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {choice.label: [] for choice in options.policies}
    shape = options.sources.speculation(options.block_size, options.tree_width)
    async with measure.client(stack) as client:
        for choice in options.policies:  # a policy may have a model to load
            await measure.run(client, chosen[0], 8, {**shape, **choice.body})
        for number, prompt in enumerate(chosen, start=1):
            print(f"prompt {number} of {len(chosen)}", file=sys.stderr, flush=True)
            for choice in options.policies:
                asked = {**shape, **choice.body}
                runs[choice.label].append(await measure.run(client, prompt, options.max_tokens, asked))
    return runs


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.policies", description=__doc__)
    parser.add_argument("policies", nargs="*", type=Choice.parse, default=DEFAULTS)
    parser.add_argument("--sources", type=Setup.parse, default=Setup("ngram,eagle"))
    prompts.add_options(parser, per_group=2)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--tree-width", type=int, default=2)
    parser.add_argument("--controller", choices=get_args(PolicyName), default="fixed")
    parser.add_argument("--weights", default="int8", help="of the target")
    parser.add_argument("--plot", type=Path, help="also draw it, as .svg or .png")
    return parser.parse_args()


if __name__ == "__main__":
    main()
