"""A model between a cheap source and the target: it filters what the cheap one guesses.

As in staged and cascade speculative decoding (Spector and Ré 2023; Chen et al. 2023, "Cascade Speculative
Drafting"): the cheap guesses cost nothing and are often wrong, a pass of the middle model over all of them
costs about as much as one over a single token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from common.model.batch import Runner, Segment
from draft_service.config import Config
from draft_service.session import Session
from draft_service.sources import model, registry, self_draft
from draft_service.sources.base import NOTHING, Guess, Source
from draft_service.sources.beliefs import beliefs
from draft_service.sources.engines import DraftModel
from draft_service.sources.kv import Cache, Caches


def make(config: Config, folder: str) -> CascadeSource:
    middle = model.load(config, folder) if config.cascade_middle == "model" else self_draft.load(config)
    tiny = registry.make_one(config.cascade_tiny, config, folder)
    return CascadeSource(tiny, middle, config.prefill_tokens, config.cascade_threshold)


@dataclass(slots=True, eq=False)
class _Draft:
    """One session's block in the making.

    Attributes:
        unread: committed tokens and guesses that stand, not run yet.
        cheap: what is left of the tiny source's guesses.
        block: the guesses that stand.
        confidences: the product of the middle model's beliefs in them.
    """

    session: Session
    cache: Cache
    unread: list[int]
    cheap: list[int]
    block: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.block) == self.session.block_size

    @property
    def asked(self) -> list[int]:
        """The guesses for the next pass: no more than fit."""
        return self.cheap[: self.session.block_size - len(self.block)]

    def take(self, token_id: int, belief: float) -> None:
        self.block.append(token_id)
        self.confidences.append(belief * (self.confidences[-1] if self.confidences else 1.0))


class CascadeSource:
    """Chains of the tiny source's guesses in which the middle model believes, mended where it does not.

    A guess stands while the middle model believes in it by at least the threshold, or most of all. The first
    that does not is replaced by the model's own choice, and the rest of the tiny source's guesses are tried
    after that: where a text is repeated with a word changed, they go on to be right. The tiny source is asked
    once a block, about the committed text, which is all it ever has to follow. What is missing in the end the
    model adds token by token.

    Every guess is declared certain (one-hot), under rejection sampling too. The tiny source's guesses are
    functions of the text or drawn from a q of its own; which of them stand depends on what they turned out
    to be; those that replace others depend on that again. So what is in the block was drawn neither from the
    tiny source's q nor from the model's, and declaring either would bias the answer. A certain guess x is
    accepted with probability p(x) and else replaced from p without x: that is p, whatever chose x, as long as
    the target's noise had no part in it. So the model's own choice is its likeliest token.
    """

    name = "cascade"

    def __init__(self, tiny: Source, middle: DraftModel, prefill_tokens: int, threshold: float) -> None:
        self._tiny = tiny
        self._middle_version = middle.model_version
        self._runner: Runner = middle.runner
        self._caches = Caches(middle.num_blocks, prefill_tokens, middle.context_length)
        self._threshold = threshold

    @property
    def sources(self) -> Sequence[Source]:
        return (self._tiny,)

    @property
    def model_version(self) -> str:
        return f"{self._tiny.name}+{self._middle_version}"

    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        """One packed pass for all sessions, until each one's block is full."""
        results: dict[Session, Guess | None] = dict.fromkeys(sessions, NOTHING)
        drafts = []
        for session, cheap in zip(sessions, self._tiny.propose(sessions), strict=True):
            prepared = self._caches.prepare(session, sessions)
            if prepared:
                session.follow()
                drafts.append(_Draft(session, *prepared, _first_branch(cheap or NOTHING)))
        for draft in drafts:
            if len(draft.cache.tokens) + len(draft.unread) < len(draft.session.tokens):
                results[draft.session], draft.cheap = None, []
        growing = drafts
        while growing:
            for draft, logits in zip(growing, self._run(growing), strict=True):
                if results[draft.session] is not None:
                    self._judge(draft, logits)
            growing = [d for d in growing if results[d.session] is not None and d.unread and not d.full]
        for draft in drafts:
            if results[draft.session] is not None:
                results[draft.session] = Guess(tuple(draft.block), confidences=tuple(draft.confidences))
        return [results[session] for session in sessions]

    def close(self, session_id: str) -> None:
        self._caches.close(session_id)
        self._tiny.close(session_id)

    def _run(self, drafts: Sequence[_Draft]) -> list[Tensor]:
        """What the model says after the last token that stands and each guess: [guesses + 1, vocabulary]."""
        segments = []
        for draft in drafts:
            tokens = [*draft.unread, *draft.asked]
            start, wanted = len(draft.cache.tokens), 1 + len(draft.asked)
            segments.append(Segment(tokens, start, draft.cache.blocks, wanted))
            draft.cache.tokens += tokens
        return [output.logits for output in self._runner.run(segments)]

    def _judge(self, draft: _Draft, logits: Tensor) -> None:
        """Take the guesses that stand, and one token of the model's own while there is room."""
        asked, before = draft.asked, len(draft.block)
        draft.unread = []
        for place, row in enumerate(logits):
            said = beliefs(draft.session, row, draft.block)
            own = int(said.argmax())
            guess = asked[place] if place < len(asked) else own
            stands = float(said[guess]) >= self._threshold or guess == own
            token_id = guess if stands else own
            belief = float(said[token_id])
            if draft.full or not belief > 0:
                break
            draft.take(token_id, belief)
            if not stands or place == len(asked):
                draft.unread = [token_id]
                break
        draft.cheap = draft.cheap[len(draft.block) - before :]
        tokens = [*draft.session.tokens, *draft.block]
        del draft.cache.tokens[len(tokens) - len(draft.unread) :]


def _first_branch(guess: Guess) -> list[int]:
    if not guess.parents:
        return list(guess.token_ids)
    found: list[int] = []
    last = -1
    for node, parent in enumerate(guess.parents):
        if parent == last:
            found.append(guess.token_ids[node])
            last = node
    return found
