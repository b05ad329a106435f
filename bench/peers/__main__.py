"""``python -m bench.peers``: Tandem beside other engines, in one run on the same weights and prompts.

``python -m bench.peers setup [NAME …]`` first gives the peers their environments.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import machine, passes, prompts, runners, stopping
from bench.measure import ALWAYS_PREFILL
from bench.peers import engines, environments, race, table
from bench.peers.contestant import STREAMS, Contestant, Row
from bench.setups import Setup
from common.model import cache, store
from common.model.tokenizer import Tokenizer
from tandem.local import LocalStack

_TANDEM = "tandem"
_ENGINES = (_TANDEM, *environments.RECIPES, "transformers")
_PREFILL_TOKENS = 1024
_PREFILL_STEP = 61  # tokens between the starts of two prefills, so that they share no prefix


@dataclass(frozen=True)
class Variant:
    """A Tandem stack with a name and variables of its own."""

    name: str
    environment: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Variant:
        """``NAME`` or ``NAME:VARIABLE=VALUE,…``; a value holds no comma."""
        name, _, variables = text.partition(":")
        pairs = [pair.partition("=") for pair in variables.split(",") if pair]
        if not name or not all(key and equals for key, equals, _ in pairs):
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME:VARIABLE=VALUE,…")
        return cls(name, {key: value for key, _, value in pairs})


def main() -> None:
    options = _options()
    if options.command == "setup":
        made = environments.find(options.cache)
        for name in options.names:
            made[name].make()
        return
    stopping.as_after_ctrl_c()
    described = machine.describe()
    _say(str(described))
    costs = passes.measure_all(options.pass_weights) if _TANDEM in options.engines else {}
    with ExitStack() as stacks:
        entries = [
            *_tandems(options, stacks),
            *engines.peers(environments.find(options.cache), options.engines),
        ]
        results, absent = asyncio.run(_measure(entries, _course(options)))
    ours = [
        name for name in results.lengths if any(name.startswith(f"{each.name} ") for each in options.variant)
    ]
    print(described, *(passes.table(*each) for each in costs.items()), sep="\n\n")
    print("", table.text(results, ours, absent), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(table.as_json(results, absent, described, costs), indent=2))


def _tandems(options: argparse.Namespace, stacks: ExitStack) -> Iterator[engines.Entry]:
    for variant in options.variant if _TANDEM in options.engines else ():
        _say(f"starting {variant.name}")
        yield from _tandem(variant, options, stacks)


def _tandem(variant: Variant, options: argparse.Namespace, stacks: ExitStack) -> Iterator[engines.Entry]:
    """A stack for each setup; without drafts the first of them is asked."""
    for number, setup in enumerate(options.sources):
        environment = ALWAYS_PREFILL | setup.environment() | variant.environment
        stack = stacks.enter_context(LocalStack(setup.pools(), environment))
        if number == 0:
            yield engines.tandem(Row(f"{variant.name} plain"), stack.url, {"enabled": False})
        if setup.drafts:
            row = Row(f"{variant.name} {setup.sources}", prefills=False)
            yield engines.tandem(row, stack.url, setup.speculation(options.block_size, options.tree_width))


async def _measure(
    entries: Sequence[engines.Entry], course: race.Course
) -> tuple[race.Results, dict[str, str]]:
    async with AsyncExitStack() as running:
        contestants, absent = await _start(entries, running)
        return await race.run(contestants, course, _say), absent


async def _start(
    entries: Sequence[engines.Entry], running: AsyncExitStack
) -> tuple[list[Contestant], dict[str, str]]:
    """Whoever starts, and why the others do not: a peer that fails must not cost the whole run."""
    contestants: list[Contestant] = []
    absent = {entry.row.name: entry.absent for entry in entries if entry.absent}
    for entry in entries:
        if entry.absent:
            continue
        _say(f"starting {entry.row.name}")
        try:
            contestants.append(await running.enter_async_context(entry.start()))
        except (OSError, RuntimeError) as error:
            absent[entry.row.name] = f"did not start: {error}"
            _say("\n".join([absent[entry.row.name], *getattr(error, "__notes__", [])]))
    return contestants, absent


def _course(options: argparse.Namespace) -> race.Course:
    chosen = [prompt.text for prompt in prompts.load(options.prompts, options.per_group)]
    tokenizer = Tokenizer(store.load_tokenizer(store.resolve(store.EMBEDDED)))
    ids = tokenizer.encode("\n\n".join(chosen))
    return race.Course(
        chosen, options.max_tokens, options.rounds, options.streams, partial(_prefill_ids, ids)
    )


def _prefill_ids(ids: Sequence[int], number: int) -> list[int]:
    """As many as a prefill has, from another place each time."""
    first = number * _PREFILL_STEP
    return [ids[(first + index) % len(ids)] for index in range(_PREFILL_TOKENS)]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _peer(name: str) -> str:
    """``choices`` would refuse the empty list that stands for all."""
    if name not in environments.RECIPES:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(environments.RECIPES)}")
    return name


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    prompts.add_options(parser, per_group=3)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3, help="each number is the median over these")
    parser.add_argument("--streams", type=int, nargs="+", choices=STREAMS, default=STREAMS)
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES, help="who takes part")
    parser.add_argument(
        "--variant",
        type=Variant.parse,
        action="append",
        help="a Tandem stack with variables of its own, NAME:VARIABLE=VALUE,…; may be given again",
    )
    parser.add_argument(
        "--sources",
        type=Setup.parse,
        nargs="+",
        default=[Setup("ngram")],
        help="of every variant's drafts, each in a stack of its own; several with commas make a pool",
    )
    parser.add_argument("--block-size", type=int, default=4, help="guesses per block of Tandem's drafts")
    parser.add_argument("--tree-width", type=int, default=1, help="of them after the same text")
    parser.add_argument("--pass-weights", nargs="*", choices=runners.WEIGHTS, default=["auto"])
    parser.add_argument("--cache", type=Path, default=cache.cache_dir() / "peers", help="of environments")
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    setup = parser.add_subparsers(dest="command").add_parser("setup", help="make the peers' environments")
    setup.add_argument(
        "names", nargs="*", type=_peer, default=list(environments.RECIPES), help="default: all"
    )
    options = parser.parse_args()
    options.variant = options.variant or [Variant(_TANDEM, {})]
    return options


if __name__ == "__main__":
    main()
