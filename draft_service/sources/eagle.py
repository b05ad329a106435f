"""EAGLE: a one-layer head that guesses the target's next hidden state, and from it the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from draft_service.config import Config
from draft_service.heads import running
from draft_service.heads.eagle import EagleHead
from draft_service.heads.running import RunningHead
from draft_service.session import Session
from draft_service.sources.base import NOTHING, Guess
from draft_service.sources.growing import Growth
from draft_service.sources.state_reader import StateReader, ready


def make(config: Config, folder: str) -> EagleSource:
    return EagleSource(running.load(config, folder, "eagle"))


@dataclass(slots=True, eq=False)
class _Branch:
    """The guesses that were run after the committed tokens, a tree; their keys and values lie in this order.

    Attributes:
        root: the guess at the feature of the last committed token, and the logits after it.
        made: of every guess its place among them, by its path.
        features, logits: of every guess.
    """

    root: tuple[Tensor, Tensor]
    made: dict[tuple[int, ...], int] = field(default_factory=dict)
    features: list[Tensor] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)

    def feature(self, path: tuple[int, ...]) -> Tensor:
        """[1, hidden]"""
        return self.features[self.made[path]] if path else self.root[0]

    def said(self, path: tuple[int, ...]) -> Tensor:
        """[head's vocabulary]"""
        return self.logits[self.made[path]] if path else self.root[1]


@dataclass(slots=True, eq=False)
class _Cache:
    """Keys and values of the rows that were made from the target's own states.

    Attributes:
        keys, values: [kv heads, slots, head size]; slots past ``length`` are of guesses, or empty.
        end: the position after the last row's; a row's position is that of the state it was made from.
        branch: what was run after those rows.
    """

    keys: Tensor
    values: Tensor
    length: int = 0
    end: int = 0
    branch: _Branch | None = None

    @staticmethod
    def of(running_head: RunningHead) -> _Cache:
        shape = running_head.shape
        slots = torch.empty(2, shape.kv_heads, 2 * shape.window, shape.head_size)
        return _Cache(*slots)

    def write(self, slot: int, keys: Tensor, values: Tensor) -> None:
        """[kv heads, rows, head size] from ``slot`` on."""
        stop = slot + keys.shape[1]
        if stop > self.keys.shape[1]:
            room = (0, 0, 0, stop)
            self.keys, self.values = F.pad(self.keys, room), F.pad(self.values, room)
        self.keys[:, slot:stop] = keys
        self.values[:, slot:stop] = values

    def shrink(self, window: int) -> None:
        """Keep the last ``window`` rows, in fresh memory where guesses had made it grow."""
        first = max(self.length - window, 0)
        for name in ("keys", "values"):
            kept = getattr(self, name)[:, first : self.length]
            setattr(self, name, F.pad(kept, (0, 0, 0, 2 * window - kept.shape[1])))
        self.length -= first


@dataclass(slots=True, eq=False)
class _Rows:
    """What one session adds to a pass.

    Attributes:
        slot: where the rows' keys and values go.
        first: the first slot that is seen.
        mask: [rows, slots from ``first`` up to the last row's]; None: all are seen.
    """

    cache: _Cache
    tokens: list[int]
    features: Tensor
    positions: list[int]
    slot: int
    first: int
    mask: Tensor | None


@dataclass(slots=True, eq=False)
class _Draft:
    """One session's guesses in the making, after the ``assumed`` tokens."""

    session: Session
    cache: _Cache
    growth: Growth
    assumed: tuple[int, ...]

    @property
    def branch(self) -> _Branch:
        assert self.cache.branch
        return self.cache.branch

    @property
    def unmade(self) -> list[tuple[int, ...]]:
        """The growth's paths that were not run, from the committed text on; what is assumed comes first."""
        for length in range(1, len(self.assumed) + 1):
            if self.assumed[:length] not in self.branch.made:
                return [self.assumed[:length]]
        return [path for path in map(self.whole, self.growth.paths) if path not in self.branch.made]

    def whole(self, path: tuple[int, ...]) -> tuple[int, ...]:
        return (*self.assumed, *path)


class EagleSource(StateReader):
    """Li et al. 2024 (EAGLE), Li et al. 2025 (EAGLE-3); which guesses are worth it as in EAGLE-2.

    Between commits the head reads its own features, also those of tokens that are assumed. At a commit they
    are forgotten, and the rows of the committed tokens are made from the states that the target sent. A
    session whose states have not come gets no guesses; one whose prompt was cached begins with the first
    state that came.
    """

    name = "eagle"

    def __init__(self, running_head: RunningHead) -> None:
        super().__init__(running_head)
        assert isinstance(running_head.head, EagleHead)
        self._head = running_head.head
        self._window = running_head.shape.window
        self._caches: dict[str, _Cache] = {}

    @torch.inference_mode()
    def propose(self, sessions: Sequence[Session]) -> list[Guess | None]:
        results: dict[Session, Guess | None] = dict.fromkeys(sessions, NOTHING)
        drafts = [self._begin(session) for session in sessions if ready(session)]
        self._catch_up([draft for draft in drafts if draft.cache.branch is None])
        while missing := [draft for draft in drafts if not draft.growth.planted]:
            self._plant(missing)
        while growing := [draft for draft in drafts if not draft.growth.finished]:
            self._advance(growing)
        for draft in drafts:
            results[draft.session] = draft.growth.guess()
        return [results[session] for session in sessions]

    def close(self, session_id: str) -> None:
        self._caches.pop(session_id, None)

    def _begin(self, session: Session) -> _Draft:
        cache = self._caches.get(session.session_id)
        if cache is None:
            cache = self._caches[session.session_id] = _Cache.of(self._running)
        if session.num_committed != cache.end + 1:
            cache.branch = None
        assumed = tuple(session.tokens[session.num_committed :])
        return _Draft(session, cache, Growth(session, few=self._running.few), assumed)

    def _catch_up(self, drafts: Sequence[_Draft]) -> None:
        """The rows of committed tokens that have come since; the last one says what follows."""
        if not drafts:
            return
        made = self._pass([self._pending(draft) for draft in drafts])
        roots = [features[-1:] for features in made]
        logits = self._running.logits(torch.cat(roots))
        for draft, root, row in zip(drafts, roots, logits, strict=True):
            draft.cache.branch = _Branch((root, row))

    def _plant(self, drafts: Sequence[_Draft]) -> None:
        """Run the next of the assumed tokens; where all were, what may follow them is known."""
        self._run(drafts)
        for draft in drafts:
            if not draft.assumed or draft.assumed in draft.branch.made:
                draft.growth.plant(draft.branch.said(draft.assumed))

    def _pending(self, draft: _Draft) -> _Rows:
        session, cache = draft.session, draft.cache
        assert session.states is not None
        end = session.num_committed - 1
        known = max(session.states.first, end - self._window)
        # The last row is made anew where nothing has come since, so that there is one that says what follows.
        first = min(cache.end, end - 1)
        if first < known:  # the first time, or after a gap
            first, cache.length = known, 0
        else:
            cache.length -= cache.end - first
        count = end - first
        if cache.length + count > 2 * self._window:
            cache.shrink(self._window)
        slot = cache.length
        cache.length += count
        cache.end = end
        return _Rows(
            cache,
            session.tokens[first + 1 : end + 1],
            self._head.features(self._states_since(session, first)),
            list(range(first, end)),
            slot,
            0,
            _causal(slot, count, self._window),
        )

    def _advance(self, drafts: Sequence[_Draft]) -> None:
        """Run the guesses that are new, each after its own branch; a level of a tree is one pass."""
        self._run(drafts)
        for draft in drafts:
            paths = map(draft.whole, draft.growth.paths)
            draft.growth.grow(torch.stack([draft.branch.said(path) for path in paths]))

    def _run(self, drafts: Sequence[_Draft]) -> None:
        running_now = [(draft, paths) for draft in drafts if (paths := draft.unmade)]
        if not running_now:
            return
        made = self._pass([self._questions(draft, paths) for draft, paths in running_now])
        logits = self._running.logits(torch.cat(made)).split([len(features) for features in made])
        for (draft, _), features, rows in zip(running_now, made, logits, strict=True):
            draft.branch.features += features.unsqueeze(1).unbind()
            draft.branch.logits += rows.unbind()

    def _questions(self, draft: _Draft, paths: Sequence[tuple[int, ...]]) -> _Rows:
        cache, branch = draft.cache, draft.branch
        before = len(branch.made)
        features = [branch.feature(path[:-1]) for path in paths]
        branch.made.update((path, before + index) for index, path in enumerate(paths))
        first = max(cache.length - self._window, 0)
        alone = len(paths) == 1 and len(paths[0]) == len(branch.made)
        return _Rows(
            cache,
            [path[-1] for path in paths],
            torch.cat(features),
            [cache.end + len(path) - 1 for path in paths],
            cache.length + before,
            first,
            None if alone else _branches(cache.length - first, branch.made, paths),
        )

    def _pass(self, parts: Sequence[_Rows]) -> list[Tensor]:
        """Guesses at features, [rows, hidden] for each part."""
        counts = [len(part.tokens) for part in parts]
        tokens = [token for part in parts for token in part.tokens]
        positions = torch.tensor([position for part in parts for position in part.positions])
        features = torch.cat([part.features for part in parts])
        layer = self._head.layer
        x = self._head.inputs(self._running.embeddings(tokens), features)
        query, key, value = layer.query_key_value(x, positions)
        split = [each.split(counts, 1) for each in (query, key, value)]
        attended = [_attend(part, *own) for part, *own in zip(parts, *split, strict=True)]
        return list(self._head.outputs(layer.finish(x, torch.cat(attended, 1))).split(counts))


def _attend(part: _Rows, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Write the rows' keys and values, then attend: [heads, rows, size]."""
    part.cache.write(part.slot, key, value)
    stop = part.slot + key.shape[1]
    seen = slice(part.first, stop)
    keys, values = part.cache.keys[:, seen], part.cache.values[:, seen]
    folded = query.reshape(len(keys), -1, query.shape[-1])
    mask = None if part.mask is None else part.mask.repeat(len(query) // len(keys), 1)
    attended = F.scaled_dot_product_attention(folded[None], keys[None], values[None], attn_mask=mask)
    return attended.view(query.shape)


def _causal(slot: int, count: int, window: int) -> Tensor:
    rows, slots = torch.arange(slot, slot + count).unsqueeze(1), torch.arange(slot + count)
    return (slots <= rows) & (slots > rows - window)


def _branches(length: int, made: dict[tuple[int, ...], int], paths: Sequence[tuple[int, ...]]) -> Tensor:
    """[paths, slots]: ``length`` of what was committed, and each one's own branch."""
    mask = torch.zeros(len(paths), length + len(made), dtype=torch.bool)
    mask[:, :length] = True
    for row, path in enumerate(paths):
        for depth in range(1, len(path) + 1):
            mask[row, length + made[path[:depth]]] = True
    return mask
