"""Prompts with answers, as token ids: what every weight format is asked about, token by token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager

_AT_ONCE = 8


@dataclass(frozen=True)
class Text:
    """``prompt`` has at least one token."""

    prompt: Sequence[int]
    answer: Sequence[int]


def blocks_needed(longest: int) -> int:
    """KV blocks of a runner for ``greedy`` on prompts and answers of at most ``longest`` tokens together."""
    return _AT_ONCE * BlockManager.blocks_for(longest)


def greedy(
    runner: Runner, prompts: Sequence[Sequence[int]], max_tokens: int, ends: Collection[int]
) -> list[Text]:
    """The runner's own most likely answers, each up to and with one of ``ends``."""
    batches = (prompts[first : first + _AT_ONCE] for first in range(0, len(prompts), _AT_ONCE))
    return [text for batch in batches for text in _answer(runner, batch, max_tokens, ends)]


def _answer(
    runner: Runner, prompts: Sequence[Sequence[int]], max_tokens: int, ends: Collection[int]
) -> list[Text]:
    share = BlockManager.blocks_for(max(map(len, prompts)) + max_tokens)
    blocks = [range(index * share, (index + 1) * share) for index in range(len(prompts))]
    answers = [
        [_likeliest(runner, Segment(prompt, 0, own, 1))] for prompt, own in zip(prompts, blocks, strict=True)
    ]
    while running := [i for i, each in enumerate(answers) if each[-1] not in ends and len(each) < max_tokens]:
        segments = [
            Segment(answers[i][-1:], len(prompts[i]) + len(answers[i]) - 1, blocks[i], logits=1)
            for i in running
        ]
        for i, output in zip(running, runner.run(segments), strict=True):
            answers[i].append(int(output.logits[-1].argmax()))
    return [Text(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]


def _likeliest(runner: Runner, segment: Segment) -> int:
    return int(runner.run([segment])[0].logits[-1].argmax())


def load(path: Path, count: int) -> list[Text]:
    """``count`` rows, evenly picked, of an ``.npz`` file.

    It holds ``tokens``, prompt then answer, one row after another; ``offsets``, where each row starts and
    where the last one ends; ``prompt_lengths``.
    """
    with np.load(path) as file:
        tokens, offsets, lengths = file["tokens"], file["offsets"], file["prompt_lengths"]
    rows = np.linspace(0, len(lengths) - 1, min(count, len(lengths)), dtype=int)
    return [
        Text(row[:length], row[length:])
        for row, length in ((tokens[offsets[i] : offsets[i + 1]].tolist(), int(lengths[i])) for i in rows)
    ]
