"""``python -m bench``: the stack over HTTP, with and without drafts, beside transformers."""

from __future__ import annotations

import argparse
import asyncio

from bench import prompts, report, stopping
from bench.measure import ALWAYS_PREFILL, compare
from bench.setups import Setup
from bench.transformers_reference import generate_all
from tandem.local import LocalStack


def main() -> None:
    options = _options()
    stopping.as_after_ctrl_c()
    chosen = prompts.load(options.prompts, options.per_group)
    with LocalStack(options.source.pools(), ALWAYS_PREFILL | options.source.environment()) as stack:
        rounds = asyncio.run(compare(stack, chosen, options.max_tokens, options.block_size, options.repeats))
    print(report.table(rounds))
    if options.reference:
        reference = generate_all(chosen, options.max_tokens, options.reference)
        print(report.against_reference(rounds, reference, options.reference))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    prompts.add_options(parser, per_group=3)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--block-size", type=int, default=4)
    parser.add_argument("--source", type=Setup.parse, default="ngram", help="or several with commas")
    parser.add_argument("--repeats", type=int, default=1, help="the median of each prompt's times is used")
    parser.add_argument(
        "--reference",
        choices=["bfloat16", "float32"],
        default=None,
        help="also time transformers.generate in this precision on the same prompts",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
