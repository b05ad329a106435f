"""``python -m bench.replay ANSWERS.jsonl --source NAME``: how much of known answers a draft source guesses.

No model runs: each answer is replayed as verification would commit it, block by block. A line of the file has
``token_ids``, prompt first, and ``prompt_length``. Further settings of the source are the draft service's own
variables, ``TANDEM_DRAFT_*``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common import trees
from common.config import load
from common.draft_types import Open
from common.model import store
from common.types import Mode, SamplingParams
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import registry
from draft_service.sources.base import Guess, Source


@dataclass(frozen=True, slots=True)
class Answer:
    token_ids: tuple[int, ...]
    prompt_length: int


@dataclass(slots=True)
class Tally:
    """``expected``: how many guesses would have been accepted if every confidence were right."""

    steps: int = 0
    guessed: int = 0
    accepted: int = 0
    expected: float = 0.0
    seconds: float = 0.0

    def line(self) -> str:
        steps = max(self.steps, 1)
        return (
            f"{self.accepted / steps:.3f} accepted of {self.guessed / steps:.2f} guessed a step"
            f" ({self.expected / steps:.3f} by the confidences), {1e6 * self.seconds / steps:.0f} us a block,"
            f" {self.steps} steps"
        )


def read(path: Path) -> Iterator[Answer]:
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield Answer(tuple(record["token_ids"]), record["prompt_length"])


def replay(source: Source, answers: Iterable[Answer], block_size: int, tree_width: int) -> Tally:
    """Every answer after the other, each a session of its own."""
    tally = Tally()
    for number, answer in enumerate(answers):
        session = _opened(f"answer-{number}", answer, answer.prompt_length, block_size, tree_width)
        while len(session.tokens) < len(answer.token_ids):
            started = time.perf_counter()
            guess = _proposed(source, session)
            tally.seconds += time.perf_counter() - started
            left = answer.token_ids[len(session.tokens) :]
            accepted = agreement(guess, left)
            tally.steps += 1
            tally.guessed += len(guess.token_ids)
            tally.accepted += accepted
            tally.expected += sum(guess.confidences)
            session.tokens += left[: accepted + 1]
        source.close(session.session_id)
    return tally


def remember(source: Source, answers: Iterable[Answer]) -> None:
    """Let the source see finished answers as sessions that were served."""
    for number, answer in enumerate(answers):
        session = _opened(f"earlier-{number}", answer, len(answer.token_ids), 1, 1)
        _proposed(source, session)
        source.close(session.session_id)


def agreement(guess: Guess, text: tuple[int, ...]) -> int:
    """How many tokens of ``text`` one branch of the guess has."""
    siblings = trees.children(guess.parents or trees.chain(len(guess.token_ids)))
    node = -1
    for depth, token_id in enumerate(text):
        found = next((child for child in siblings[node + 1] if guess.token_ids[child] == token_id), None)
        if found is None:
            return depth
        node = found
    return len(text)


def _proposed(source: Source, session: Session) -> Guess:
    guess = None
    while guess is None:  # a long prompt takes some sources a few rounds
        (guess,) = source.propose([session])
    return guess


def _opened(name: str, answer: Answer, committed: int, block_size: int, tree_width: int) -> Session:
    update = Open(
        session_id=name,
        fingerprint="",
        vocabulary_size=max(answer.token_ids) + 1,
        token_ids=answer.token_ids[:committed],
        prompt_length=answer.prompt_length,
        sampling=SamplingParams(temperature=0),
        mode=Mode.KEYED,
        noise_seed=0,
        block_size=block_size,
        max_block_size=block_size,
        tree_width=tree_width,
    )
    return Session.opened(update)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.replay", description=__doc__)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--source", choices=sorted(registry.MODULES), default="ngram")
    parser.add_argument("--history", type=Path, default=None, help="answers the source has seen before")
    parser.add_argument("--block-size", type=int, default=8)
    parser.add_argument("--tree-width", type=int, default=1)
    options = parser.parse_args()
    config = load(Config, "draft", {**_settings(), "TANDEM_DRAFT_SOURCE": options.source})
    source = registry.make(config, store.resolve(config.model))
    if options.history:
        remember(source, read(options.history))
    tally = replay(source, read(options.answers), options.block_size, options.tree_width)
    print(f"{options.source}, width {options.tree_width}: {tally.line()}")


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("TANDEM_DRAFT_")}


if __name__ == "__main__":
    main()
