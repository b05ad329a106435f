"""What a draft knows of one session: the committed tokens and how the target samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from common import trees
from common.allowed import Allowed
from common.errors import InvalidRequest
from common.states import StateTail
from common.types import Commit, Mode, Open, SamplingParams

_REMEMBERED_BLOCKS = 2


class OutOfSync(Exception):
    """A commit that does not continue what the draft has; the session must be opened again."""


@dataclass(slots=True, eq=False)
class Session:
    """
    Attributes:
        tokens: the committed tokens, prompt first.
        block_size: guesses wanted now; 0: none.
        tree_width: most of them that may follow the same text; 1: a chain is wanted. Never above ``widest``.
        allowed: which tokens may come next; None: all, as far as this draft knows.
        grammar, tenant: as in ``types.Open``.
        states: the target's hidden states of the latest committed positions; None: none are sent.
        hidden_layers: of which layers.
        proposed: tokens and parents of the latest blocks by id; the next commit accepts a branch of one.
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

    @classmethod
    def opened(cls, update: Open) -> Session:
        """Raises InvalidRequest for hidden states that do not fit."""
        states = StateTail(len(update.hidden_layers) * update.hidden_size) if update.hidden_layers else None
        if states and update.hidden_states:
            states.take(update.hidden_states, len(update.token_ids))
        return cls(
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
        )

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

    def commit(self, update: Commit) -> None:
        """Append what the target decided.

        Raises:
            OutOfSync: when the base differs or the block is not known.
            InvalidRequest: for hidden states that do not fit.
        """
        if update.base_length != len(self.tokens):
            raise OutOfSync(f"commit at {update.base_length}, the draft holds {len(self.tokens)} tokens")
        accepted = self._branch(update) if update.accepted_nodes else ()
        self.tokens += [*accepted, *update.token_ids]
        if self.states and update.hidden_states:
            self.states.take(update.hidden_states, len(self.tokens))
        self.proposed.clear()  # whatever else was proposed followed other tokens
        self.block_size = update.block_size
        self.tree_width = min(update.tree_width or self.tree_width, self.widest)

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
