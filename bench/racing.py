"""What comparisons of our own stacks share: their options, and their part of ``bench.peers.race``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import cycle

from bench import prompts, runners
from bench.peers.contestant import Contestant
from bench.peers.race import Course
from bench.setups import Setup


def add_options(parser: argparse.ArgumentParser) -> None:
    prompts.add_options(parser, per_group=3)
    parser.add_argument("--sources", type=_drafts, default="ngram", help="several with commas make a pool")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3, help="each number is the median over these")
    parser.add_argument("--warm-up", type=int, default=600, help="tokens that each stack first answers with")
    parser.add_argument("--block-size", type=int, default=4)
    parser.add_argument("--tree-width", type=int, default=1)
    parser.add_argument("--weights", choices=runners.WEIGHTS, default="int8", help="of the target")


def course(options: argparse.Namespace, streams: Sequence[int]) -> Course:
    """Answers only: nobody's prefill is measured."""
    chosen = [prompt.text for prompt in prompts.load(options.prompts, options.per_group)]
    return Course(chosen, options.max_tokens, options.rounds, streams, lambda number: ())


async def warm_up(contestant: Contestant, options: argparse.Namespace) -> None:
    """Let a stack answer until it has found out what pays."""
    left = options.warm_up
    for prompt in cycle(prompts.load(options.prompts, options.per_group)):
        if left <= 0:
            return
        answered = await contestant.answer([prompt.text], 1, options.max_tokens)
        left -= max(answered.tokens, 1)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _drafts(text: str) -> Setup:
    setup = Setup.parse(text)
    if not setup.drafts:
        raise argparse.ArgumentTypeError("without drafts there is nothing to compare")
    return setup
