"""``python -m bench.quality``: how far each weight format is from float32, over the same tokens."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from bench import prompts, runners, texts
from bench.divergence import Divergence
from bench.texts import Text
from common.model import store
from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager
from common.model.tokenizer import Tokenizer
from common.types import Message

_ROWS = 16  # of a pass that is compared: as few as verifying has, so that the same kernels are measured
_PREFILL_ROWS = 128
_COMPARED = ("bfloat16", "int8", "int4")


def compare(
    reference: Runner, others: Mapping[str, Runner], chosen: Sequence[Text], rows: int = _ROWS
) -> dict[str, Divergence]:
    """Every answer's tokens through all runners, side by side; at most ``rows`` positions in a pass."""
    found = {name: Divergence() for name in others}
    for text in chosen:
        _compare(reference, others, text, rows, found)
    return found


def _compare(
    reference: Runner, others: Mapping[str, Runner], text: Text, rows: int, found: Mapping[str, Divergence]
) -> None:
    """The answer's first token is predicted by the prompt's last one."""
    token_ids = [*text.prompt, *text.answer]
    first = len(text.prompt) - 1
    blocks = range(BlockManager.blocks_for(len(token_ids)))
    for runner in (reference, *others.values()):
        for start in range(0, first, _PREFILL_ROWS):
            runner.run(
                [Segment(token_ids[start : min(start + _PREFILL_ROWS, first)], start, blocks, logits=0)]
            )
    for start in range(first, len(token_ids) - 1, rows):
        end = min(start + rows, len(token_ids) - 1)
        segment = Segment(token_ids[start:end], start, blocks, logits=end - start)
        expected = reference.run([segment])[0].logits
        following = torch.tensor(token_ids[start + 1 : end + 1])
        for name, runner in others.items():
            found[name].add(expected, runner.run([segment])[0].logits, following)


def table(found: Mapping[str, Divergence]) -> str:
    lines = [f"{'weights':12}{'perplexity':>12}{'ratio':>10}{'top-1':>10}{'mean KL':>12}{'tokens':>10}"]
    for name, each in found.items():
        lines.append(
            f"{name:12}{each.perplexity:>12.4f}{each.perplexity_ratio:>10.4f}{each.agreement:>10.2%}"
            f"{each.mean_kl:>12.6f}{each.positions:>10}"
        )
    return "\n".join(lines)


def main() -> None:
    options = _options()
    chosen = texts.load(options.texts, options.count) if options.texts else _own_answers(options)
    num_blocks = BlockManager.blocks_for(max(len(text.prompt) + len(text.answer) for text in chosen))
    others = {name: runners.make(name, num_blocks, options.backend) for name in options.weights}
    reference = runners.reference(num_blocks)  # the last one made says how many threads torch has
    print(f"against {runners.REFERENCE}, over {len(chosen)} answers")
    print(table(compare(reference, others, chosen)))


def _own_answers(options: argparse.Namespace) -> list[Text]:
    """What the reference says to Spec-Bench."""
    tokenizer = Tokenizer(store.load_tokenizer(store.resolve(store.EMBEDDED)))
    asked = [
        tokenizer.encode_conversation([Message("user", prompt.text)])
        for prompt in prompts.load(options.prompts, options.per_group)
    ]
    longest = max(map(len, asked)) + options.max_tokens
    runner = runners.reference(texts.blocks_needed(longest))
    return texts.greedy(runner, asked, options.max_tokens, tokenizer.eos_token_ids)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.quality", description=__doc__)
    prompts.add_options(parser, per_group=6)
    parser.add_argument("--max-tokens", type=int, default=128, help="of float32's own greedy answers")
    parser.add_argument(
        "--texts", type=Path, help="an .npz of prompts with answers, instead of float32's own"
    )
    parser.add_argument("--count", type=int, default=40, help="how many rows of --texts, evenly picked")
    parser.add_argument("--weights", nargs="+", choices=runners.WEIGHTS, default=_COMPARED)
    parser.add_argument(
        "--backend", choices=runners.BACKENDS, default="auto", help="of all but the reference"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
