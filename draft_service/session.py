"""What a draft knows of one session: the committed tokens and how the target samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from common import trees
from common.allowed import Allowed
from common.draft_types import Commit, Open
from common.errors import InvalidRequest
from common.states import StateTail
from common.types import Mode, SamplingParams
from draft_service.ahead import Ahead, Prepared, Question

MOST_AHEAD = 8
_REMEMBERED_BLOCKS = 2 + MOST_AHEAD


class OutOfSync(Exception):
    """A commit that does not continue what the draft has; the session must be opened again."""


@dataclass(slots=True, eq=False)
class Session:
    """
    Attributes:
        tokens: the committed tokens, prompt first; and while a source drafts ahead, what it is to assume.
        assumed: how many of ``tokens`` are assumed.
        block_size: guesses wanted now; 0: none.
        tree_width: most of them that may follow the same text; 1: a chain is wanted. Never above ``widest``.
        depth: most of them that may follow each other; 0: any number.
        allowed: which tokens may come next; None: all, as far as this draft knows.
        grammar, tenant, vocabulary_size, shown_temperature: as in ``draft_types.Open``.
        states: the target's hidden states of the latest committed positions; None: none are sent.
        hidden_layers: of which layers.
        published: the latest block that was sent to the fact check, with what it followed; None: none was.
        proposed: tokens and parents of the latest blocks by id; the next commit accepts a branch of one.
        ahead: what is prepared for the time after the next commit.
        ready: what was prepared for the last one, if that was asked for now.
    """

    session_id: str
    tokens: list[int]
    prompt_length: int
    sampling: SamplingParams
    mode: Mode
    noise_seed: int
    block_size: int
    publish: bool
    tree_width: int = 1
    widest: int = trees.MAX_WIDTH
    allowed: Allowed | None = None
    grammar: str = ""
    tenant: str = ""
    states: StateTail | None = None
    hidden_layers: tuple[int, ...] = ()
    proposed: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    depth: int = 0
    vocabulary_size: int = 0
    shown_temperature: float = 0.0
    published: tuple[int, tuple[int, ...]] | None = None
    assumed: int = 0
    ahead: Ahead = field(default_factory=Ahead)
    ready: Prepared | None = None

    @classmethod
    def opened(cls, update: Open) -> Session:
        """Raises InvalidRequest for hidden states that do not fit."""
        states = StateTail(len(update.hidden_layers) * update.hidden_size) if update.hidden_layers else None
        if states and update.hidden_states:
            states.take(update.hidden_states, len(update.token_ids))
        session = cls(
            session_id=update.session_id,
            tokens=list(update.token_ids),
            prompt_length=update.prompt_length,
            sampling=update.sampling,
            mode=update.mode,
            noise_seed=update.noise_seed,
            block_size=update.block_size,
            publish=update.publish,
            tree_width=update.tree_width,
            widest=update.tree_width,
            allowed=Allowed(update.vocabulary_size, update.held_tokens) if update.held_tokens else None,
            grammar=update.grammar,
            tenant=update.tenant,
            states=states,
            hidden_layers=update.hidden_layers,
            vocabulary_size=update.vocabulary_size,
            shown_temperature=update.shown_temperature,
        )
        session.ahead.allow(session.may_go_ahead(update.ahead), session.block_size, session.tree_width)
        return session

    def may_go_ahead(self, most: int) -> int:
        """How many blocks at most; a grammar does not go back."""
        return 0 if self.allowed or self.grammar else min(most, MOST_AHEAD)

    def follow(self) -> Allowed | None:
        """``allowed``, caught up with the committed tokens. A grammar that cannot follow them is left aside:
        the guesses are worse then, and the answer the same."""
        if self.allowed:
            try:
                self.allowed.follow(self.tokens, self.prompt_length)
            except InvalidRequest:
                self.allowed = None
        return self.allowed

    def allowed_length(self, guesses: Sequence[int]) -> int:
        """How many of the guesses can stand, as far as this draft knows."""
        allowed = self.follow()
        try:
            return allowed.allowed_length(guesses) if allowed else len(guesses)
        except InvalidRequest:
            self.allowed = None
            return len(guesses)

    @property
    def longest(self) -> int:
        """Most guesses of the block that follow each other."""
        return min(self.block_size, self.depth or self.block_size)

    @property
    def num_committed(self) -> int:
        return len(self.tokens) - self.assumed

    @contextmanager
    def assuming(self, question: Question) -> Iterator[None]:
        """Meanwhile a source sees the session as it would be."""
        before = self.block_size, self.tree_width
        self.depth = question.depth
        self.tokens += question.assumed
        self.assumed = len(question.assumed)
        self.block_size, self.tree_width = question.block_size, question.tree_width
        try:
            yield
        finally:
            self.block_size, self.tree_width = before
            del self.tokens[self.num_committed :]
            self.assumed = self.depth = 0

    def commit(self, update: Commit) -> None:
        """Append what the target decided.

        Raises:
            OutOfSync: when the base differs or a block is not known.
            InvalidRequest: for hidden states that do not fit.
        """
        if update.base_length != len(self.tokens):
            raise OutOfSync(f"commit at {update.base_length}, the draft holds {len(self.tokens)} tokens")
        accepted = self._branch(update) if update.accepted_nodes else ()
        decided = (*accepted, *update.token_ids)
        self.tokens += decided
        if self.states and update.hidden_states:
            self.states.take(update.hidden_states, len(self.tokens))
        self.block_size = update.block_size
        self.tree_width = min(update.tree_width or self.tree_width, self.widest)
        self._go_on(update, decided)

    def _go_on(self, update: Commit, decided: tuple[int, ...]) -> None:
        """With what was prepared for this commit, and towards the next."""
        self._learn(update)
        self.ready = self.ahead.committed(decided)
        alive = [*self.ahead.prepared, *filter(None, [self.ready])]
        ids = {prepared.block.block_id for prepared in alive}
        self.proposed = {block_id: made for block_id, made in self.proposed.items() if block_id in ids}
        self.ahead.allow(self.may_go_ahead(update.ahead), self.block_size, self.tree_width)
        if update.next_block_id:
            if self.ready is None or self.ready.block.block_id != update.next_block_id:
                raise OutOfSync(f"block {update.next_block_id} was not prepared for this commit")
            self.block_size, self.ready = 0, None
        elif self.ready and not 0 < self.block_size <= self.ready.size:
            self.ready = None

    def _learn(self, update: Commit) -> None:
        _, parents = self.proposed.get(update.block_id, ((), ()))
        last = update.accepted_nodes[-1] if update.accepted_nodes else -1
        self.ahead.learn(len(update.accepted_nodes), fell=last in parents)

    def _branch(self, update: Commit) -> tuple[int, ...]:
        """The accepted tokens."""
        token_ids, parents = self.proposed.get(update.block_id, ((), ()))
        nodes = update.accepted_nodes
        if nodes[-1] >= len(token_ids) or nodes != trees.path(parents, nodes[-1]):
            raise OutOfSync(f"{nodes} is no branch of block {update.block_id}, or that is not one of ours")
        return tuple(token_ids[node] for node in nodes)

    def remember(self, block_id: int, token_ids: tuple[int, ...], parents: tuple[int, ...] = ()) -> None:
        self.proposed[block_id] = (token_ids, parents or trees.chain(len(token_ids)))
        while len(self.proposed) > _REMEMBERED_BLOCKS:
            del self.proposed[next(iter(self.proposed))]
