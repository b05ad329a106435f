"""The target's own answers, many at a time: what a head has to learn to foresee."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager
from common.model.tokenizer import Tokenizer
from common.types import Message

TEMPERATURES = (0.0, 0.7, 1.0)
LONGEST_PROMPT = 384
_TEXT_FIELDS = ("prompt", "text", "question", "instruction")


@dataclass(frozen=True, slots=True)
class Task:
    prompt: Sequence[int]
    temperature: float


@dataclass(slots=True)
class _Answer:
    """``blocks``: of its slot, used again for the next answer."""

    task: Task
    blocks: range
    tokens: list[int] = field(default_factory=list)


def read_prompts(paths: Iterable[Path]) -> list[str]:
    """From JSON lines with a field ``prompt``, ``text``, ``question`` or ``instruction``.

    Raises:
        ValueError: naming the line that has none.
    """
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(line)
            text = next((row[name] for name in _TEXT_FIELDS if isinstance(row.get(name), str)), None)
            if text is None:
                raise ValueError(f"{path}:{number} has none of the fields {', '.join(_TEXT_FIELDS)}")
            found.append(text)
    return found


def tasks(prompts: Iterable[str], tokenizer: Tokenizer, seed: int) -> Iterator[Task]:
    """Each prompt as a user's turn, in an order and at temperatures that depend on ``seed``."""
    shuffled = list(prompts)
    chance = random.Random(seed)
    chance.shuffle(shuffled)
    for text in shuffled:
        token_ids = tokenizer.encode_conversation([Message("user", text)])
        if len(token_ids) <= LONGEST_PROMPT:
            yield Task(token_ids, chance.choice(TEMPERATURES))


def bare_user_turn(tokenizer: Tokenizer) -> list[int]:
    """The chat template up to where a user's words begin; the target goes on from there as a user would.

    As in Xu et al. 2024, "Magpie".
    """
    one, other = (tokenizer.encode_conversation([Message("user", text)]) for text in ("a", "7"))
    common = next(i for i, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return one[:common]


def user_turns(tokenizer: Tokenizer, openings: Sequence[str]) -> Iterator[Task]:
    """User turns for the target to finish, without end; they begin with ``openings`` in turn."""
    bare = bare_user_turn(tokenizer)
    begun = [Task([*bare, *tokenizer.encode_plain(opening)], 1.0) for opening in openings]
    return itertools.cycle(begun)


class Generator:
    """Keeps a fixed number of answers running: where one ends the next begins, prefilled in the same pass."""

    def __init__(
        self,
        runner: Runner,
        ends: Collection[int],
        *,
        at_once: int,
        max_tokens: int,
        seed: int,
        stop: threading.Event | None = None,
    ) -> None:
        """
        Args:
            runner: with ``blocks_needed`` blocks.
            stop: once it is set no answer comes any more.
        """
        self._runner = runner
        self._ends = frozenset(ends)
        self._max_tokens = max_tokens
        share = blocks_needed(1, max_tokens)
        self._slots = deque(range(index * share, (index + 1) * share) for index in range(at_once))
        self._stop = stop or threading.Event()
        self._random = torch.Generator().manual_seed(seed)

    def answers(self, asked: Iterator[Task]) -> Iterator[tuple[Task, list[int]]]:
        """Each with its task, up to and with the token that ended it, as they end."""
        running: list[_Answer] = []
        while not self._stop.is_set():
            starting = list(itertools.islice(asked, len(self._slots)))
            running += [_Answer(task, self._slots.popleft()) for task in starting]
            if not running:
                return
            self._advance(running)
            for answer in [answer for answer in running if self._ended(answer)]:
                running.remove(answer)
                self._slots.append(answer.blocks)
                yield answer.task, answer.tokens
        self._slots.extend(answer.blocks for answer in running)

    def _ended(self, answer: _Answer) -> bool:
        return answer.tokens[-1] in self._ends or len(answer.tokens) >= self._max_tokens

    def _advance(self, running: Sequence[_Answer]) -> None:
        segments = [_segment(answer) for answer in running]
        logits = torch.cat([output.logits for output in self._runner.run(segments)])
        temperatures = torch.tensor([answer.task.temperature for answer in running])
        for answer, token_id in zip(running, self._choose(logits, temperatures).tolist(), strict=True):
            answer.tokens.append(token_id)

    def _choose(self, logits: Tensor, temperatures: Tensor) -> Tensor:
        """By the Gumbel-max trick; temperature 0 is the likeliest."""
        noise = torch.empty_like(logits).exponential_(generator=self._random).log_()
        return (logits - temperatures.unsqueeze(-1) * noise).argmax(-1)


def blocks_needed(at_once: int, max_tokens: int) -> int:
    return at_once * BlockManager.blocks_for(LONGEST_PROMPT + max_tokens)


def _segment(answer: _Answer) -> Segment:
    prompt, tokens = answer.task.prompt, answer.tokens
    if not tokens:
        return Segment(prompt, 0, answer.blocks, logits=1)
    return Segment(tokens[-1:], len(prompt) + len(tokens) - 1, answer.blocks, logits=1)
