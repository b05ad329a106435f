"""EAGLE: a one-layer head that guesses the target's next hidden state, and from it the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from common import trees
from common.model.batch import Output, Segment
from common.model.block_manager import BlockManager
from draft_service.config import Config
from draft_service.heads import eagle_pass, running
from draft_service.heads.eagle import EagleHead
from draft_service.heads.eagle_pass import EaglePass
from draft_service.heads.running import RunningHead
from draft_service.session import Session
from draft_service.sources import engines
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.growing import Growth
from draft_service.sources.kv import common_prefix
from draft_service.sources.state_reader import StateReader, ready

_WINDOWS_KEPT = 4  # rows of a session, in windows, before the last one is made anew and the others are let go
_BEYOND = 1024  # rows of guesses and assumed tokens
_KV_BLOCKS = 2048

Path = tuple[int, ...]
"""Guesses, the first after the committed text."""


def make(config: Config, folder: str) -> EagleSource:
    return EagleSource(running.load(config, folder, "eagle"), engines.num_blocks(config))


@dataclass(slots=True, eq=False)
class _Branch:
    """What was said after the committed text and after the guesses that were run; a tree.

    Attributes:
        features: by path, guesses at the target's, [hidden].
        logits: by path, [head's vocabulary].
    """

    features: dict[Path, Tensor] = field(default_factory=dict)
    logits: dict[Path, Tensor] = field(default_factory=dict)

    def add(self, paths: Sequence[Path], features: Tensor, logits: Tensor) -> None:
        self.features.update(zip(paths, features, strict=True))
        self.logits.update(zip(paths, logits, strict=True))


@dataclass(slots=True, eq=False)
class _Cache:
    """Rows that were made from the target's own states, and those of guesses after them.

    Attributes:
        blocks: of the KV pool; a row's slot is its position less ``base``.
        base, end: positions of the first row and past the last; a row's position is that of its state.
        laid: the guesses whose rows lie in the slots after those, each after the one before.
        branch: None: nothing was said since the last commit.
    """

    blocks: list[int] = field(default_factory=list)
    base: int = 0
    end: int = 0
    laid: Path = ()
    branch: _Branch | None = None


@dataclass(slots=True, eq=False)
class _Draft:
    """One session's guesses in the making, after the ``assumed`` tokens.

    ``pending``: positions whose rows are to be made from the target's states.
    """

    session: Session
    cache: _Cache
    growth: Growth
    assumed: Path
    pending: range

    @property
    def branch(self) -> _Branch:
        assert self.cache.branch
        return self.cache.branch

    @property
    def unmade(self) -> list[Path]:
        """The guesses to be run next; what is assumed comes first, each after the one before."""
        for length in range(1, len(self.assumed) + 1):
            if self.assumed[:length] not in self.branch.logits:
                return [self.assumed[:length]]
        if not self.growth.planted:
            return []
        paths = ((*self.assumed, *path) for path in self.growth.unasked)
        return [path for path in paths if path not in self.branch.logits]

    def said(self, path: Path) -> Tensor:
        """[head's vocabulary]"""
        return self.branch.logits[(*self.assumed, *path)]


@dataclass(frozen=True, slots=True)
class _Question:
    """The rows of one draft in a pass: of ``paths`` the last ones are asked, the others lead to them."""

    draft: _Draft
    paths: Sequence[Path]
    asked: Sequence[Path]
    segment: Segment

    @property
    def features(self) -> list[Tensor]:
        return [self.draft.branch.features[path[:-1]] for path in self.paths]

    def take(self, output: Output) -> None:
        assert output.hidden is not None
        self.draft.branch.add(self.asked, output.hidden[-len(self.asked) :], output.logits)


class EagleSource(StateReader):
    """Li et al. 2024 (EAGLE), Li et al. 2025 (EAGLE-3); which guesses are worth it as in EAGLE-2.

    Between commits the head reads its own features, also those of tokens that are assumed. At a commit they
    are forgotten, and the rows of the committed tokens are made from the states that the target sent. A
    session whose states have not come gets no guesses; one whose prompt was cached begins with the first
    state that came.
    """

    name = "eagle"

    def __init__(self, running_head: RunningHead, num_blocks: int = _KV_BLOCKS) -> None:
        """``num_blocks``: of the KV pool that all sessions share."""
        super().__init__(running_head)
        assert isinstance(running_head.head, EagleHead)
        self._head = running_head.head
        self._few = running_head.few
        self._window = running_head.shape.window
        self._most_rows = _WINDOWS_KEPT * self._window
        self._num_blocks = num_blocks
        self._pass = self._made(running_head)
        self._block_manager = BlockManager(num_blocks)
        self._caches: dict[str, _Cache] = {}

    def _made(self, running_head: RunningHead) -> EaglePass:
        return eagle_pass.make(running_head, self._num_blocks, self._most_rows + _BEYOND)

    def replacement(self, running_head: RunningHead) -> Callable[[], None]:
        head, made = running_head.head, self._made(running_head)
        assert isinstance(head, EagleHead) and head.shape == self.shape

        def swap() -> None:
            self._running, self._head, self._few, self._pass = running_head, head, running_head.few, made
            self._caches = {name: _Cache(cache.blocks) for name, cache in self._caches.items()}

        return swap

    @torch.inference_mode()
    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        results: dict[Session, Guess | None] = dict.fromkeys(sessions, NOTHING)
        drafts = [draft for session in sessions if (draft := self._begin(session, sessions))]
        self._catch_up([draft for draft in drafts if draft.pending])
        while missing := [draft for draft in drafts if not draft.growth.planted]:
            self._plant(missing)
        while growing := [draft for draft in drafts if not draft.growth.finished]:
            self._run(growing)
            for draft in growing:
                draft.growth.ask(draft.said)
        for draft in drafts:
            results[draft.session] = draft.growth.guess()
        return [results[session] for session in sessions]

    def close(self, session_id: str) -> None:
        cache = self._caches.pop(session_id, None)
        if cache:
            self._block_manager.free(cache.blocks)

    def _begin(self, session: Session, waiting: Sequence[Session]) -> _Draft | None:
        """None: its states have not come, or there is no room."""
        if not ready(session):
            return None
        cache = self._caches.pop(session.session_id, None) or _Cache()
        self._caches[session.session_id] = cache  # the latest used is the last to be evicted
        pending = self._pending(session, cache)
        assumed = tuple(session.tokens[session.num_committed :])
        rows = session.num_committed - 1 - cache.base + len(assumed) + session.block_size
        if not self._make_room(cache, rows, waiting):
            self.close(session.session_id)
            return None
        if pending:
            cache.end, cache.laid, cache.branch = pending.stop, (), None
        return _Draft(session, cache, Growth(session, few=self._few), assumed, pending)

    def _pending(self, session: Session, cache: _Cache) -> range:
        """Positions whose rows are missing; the last row is made anew where nothing is known after it."""
        assert session.states is not None
        end = session.num_committed - 1
        if cache.branch and cache.end == end:
            return range(0)
        first = min(cache.end, end - 1)
        known = max(session.states.first, end - self._window)
        if first < known or end - cache.base > self._most_rows:  # the first time, after a gap, or too many
            first = cache.base = known
        return range(first, end)

    def _make_room(self, cache: _Cache, rows: int, waiting: Sequence[Session]) -> bool:
        """Hold blocks for so many rows; those that do not wait lose theirs, the longest unused first."""
        missing = BlockManager.blocks_for(rows) - len(cache.blocks)
        if missing <= 0:
            return True
        keep = {session.session_id for session in waiting}
        for session_id in [s for s in self._caches if s not in keep]:
            if self._block_manager.can_allocate(missing):
                break
            self.close(session_id)
        if not self._block_manager.can_allocate(missing):
            return False
        cache.blocks += self._block_manager.allocate(missing, after=cache.blocks)
        return True

    def _catch_up(self, drafts: Sequence[_Draft]) -> None:
        """The rows of committed tokens that have come since; the last one says what follows."""
        if not drafts:
            return
        states = torch.cat([self._states_since(draft.session, draft.pending.start) for draft in drafts])
        outputs = self._pass([_committed(draft) for draft in drafts], self._head.features(states))
        for draft, output in zip(drafts, outputs, strict=True):
            assert output.hidden is not None
            draft.cache.branch = _Branch()
            draft.branch.add([()], output.hidden[-1:], output.logits)

    def _plant(self, drafts: Sequence[_Draft]) -> None:
        """Run the next of the assumed tokens; where all were, what may follow them is known."""
        self._run(drafts)
        for draft in drafts:
            if draft.assumed in draft.branch.logits:
                draft.growth.plant(draft.said(()))

    def _run(self, drafts: Sequence[_Draft]) -> None:
        """The guesses that are new, each after its own branch; a level of a tree is one pass."""
        questions = [_question(draft, paths) for draft in drafts if (paths := draft.unmade)]
        if not questions:
            return
        features = torch.stack([feature for question in questions for feature in question.features])
        outputs = self._pass([question.segment for question in questions], features)
        for question, output in zip(questions, outputs, strict=True):
            question.take(output)


def _committed(draft: _Draft) -> Segment:
    """A row's token is the one after its state."""
    start, stop = draft.pending.start, draft.pending.stop
    token_ids = draft.session.tokens[start + 1 : stop + 1]
    return Segment(token_ids, start - draft.cache.base, draft.cache.blocks, logits=1, hidden=True)


def _question(draft: _Draft, asked: Sequence[Path]) -> _Question:
    """The guesses with those on the way to them whose rows do not lie there yet."""
    cache = draft.cache
    lying = min(common_prefix(cache.laid, path[:-1]) for path in asked)
    new = set(asked)
    between = {path[:length] for path in asked for length in range(lying + 1, len(path))} - new
    paths = [*sorted(between, key=len), *asked]
    places = {path: place for place, path in enumerate(paths)}
    parents = [places.get(path[:-1], -1) for path in paths]
    trunk = common_prefix(parents, trees.chain(len(parents)))
    cache.laid = (*asked[0][:lying], *(path[-1] for path in paths[:trunk]))
    segment = Segment(
        [path[-1] for path in paths],
        cache.end - cache.base + lying,
        cache.blocks,
        logits=len(asked),
        parents=() if trunk == len(paths) else parents,
        hidden=True,
    )
    return _Question(draft, paths, asked, segment)
