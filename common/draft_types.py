"""The dataclasses of the draft stream; ``codec`` turns them into protobuf messages and back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from common import trees
from common.types import Mode, SamplingParams


@dataclass(frozen=True, slots=True)
class SparseDistribution:
    """Probabilities of a few tokens; every other token has none."""

    token_ids: tuple[int, ...]
    probabilities: tuple[float, ...]

    @classmethod
    def certain(cls, token_id: int) -> SparseDistribution:
        """One-hot."""
        return cls((token_id,), (1.0,))


@dataclass(frozen=True, slots=True)
class Block:
    """Guesses for the tokens after the first ``base_length`` of a session.

    ``parents[i]`` is the index of token i's parent within the block, -1 for the committed root; empty for
    a chain; see ``common.trees``. ``distributions`` is empty when every guess is one-hot; else
    ``distributions[i]`` is what token i was drawn from given all before it, its earlier siblings left out;
    or what was believed there, where ``Open.shown_temperature`` asks for that.
    ``sources[i]`` says who guessed token i; empty: all come from ``source``. ``assumed``, the last of the
    ``base_length`` tokens, are not committed: the block was drafted ahead, in case they will be.
    ``disagreements[i]``: of a pool's sources, how far apart the closest two are at the position of token i,
    as KL / log(vocabulary); below 0: one spoke alone. Empty: not known.
    """

    block_id: int
    base_length: int
    token_ids: tuple[int, ...]
    parents: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    distributions: tuple[SparseDistribution, ...] = ()
    confidences: tuple[float, ...] = ()
    source: str = ""
    model_version: str = ""
    drafting_seconds: float = 0.0
    sources: tuple[str, ...] = ()
    assumed: tuple[int, ...] = ()
    disagreements: tuple[float, ...] = ()

    @property
    def tree(self) -> tuple[int, ...]:
        """``parents``, spelled out for a chain too."""
        return self.parents or trees.chain(len(self.token_ids))

    def distribution_of(self, node: int) -> SparseDistribution:
        """As declared; a guess that came without one is certain."""
        if self.distributions:
            return self.distributions[node]
        return SparseDistribution.certain(self.token_ids[node])

    def source_of(self, node: int) -> str:
        """Who made a guess: ``source``, and which of the sources in it where the block says so."""
        return f"{self.source}/{self.sources[node]}" if self.sources else self.source

    def shallow(self, depth: int) -> Block:
        """The guesses before the first that is more than ``depth`` tokens from the root."""
        deep = (node for node, found in enumerate(trees.depths(self.tree)) if found >= depth)
        return self.prefix(next(deep, len(self.token_ids)))

    def prefix(self, length: int) -> Block:
        """The block's first ``length`` guesses."""
        return self.only(range(min(length, len(self.token_ids))))

    def only(self, nodes: Sequence[int]) -> Block:
        """The block with these of its guesses, in their order; parents are among them."""
        if len(nodes) == len(self.token_ids):
            return self
        places = {-1: -1} | {node: place for place, node in enumerate(nodes)}
        return replace(
            self,
            token_ids=tuple(self.token_ids[node] for node in nodes),
            parents=tuple(places[self.parents[node]] for node in nodes) if self.parents else (),
            probabilities=tuple(self.probabilities[node] for node in nodes) if self.probabilities else (),
            distributions=tuple(self.distributions[node] for node in nodes) if self.distributions else (),
            confidences=tuple(self.confidences[node] for node in nodes) if self.confidences else (),
            sources=tuple(self.sources[node] for node in nodes) if self.sources else (),
            disagreements=tuple(self.disagreements[node] for node in nodes) if self.disagreements else (),
        )


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """Of consecutive committed positions: bfloat16 [positions, layers, hidden size], little endian."""

    first_position: int
    bfloat16: bytes


@dataclass(frozen=True, slots=True)
class Open:
    """Start or restart a session: every committed token, and how the target will sample.

    Attributes:
        hidden_layers, hidden_size: what the hidden states of this session are of; no layers: none will come.
        hidden_states: of positions that are computed already.
        grammar: in llguidance's form; a draft that cannot follow it may leave it aside.
        held_tokens: for a token the number of output tokens that must come before it.
        ahead: as in ``Commit``.
        shown_temperature: blocks declare what the draft believes at this temperature; 0: as the mode has it.
        tenant: a draft that learns from answers uses them for the same tenant only; see ``tenant_key``.
    """

    session_id: str
    fingerprint: str
    vocabulary_size: int
    token_ids: Sequence[int]
    prompt_length: int
    sampling: SamplingParams
    mode: Mode
    noise_seed: int
    block_size: int
    max_block_size: int
    tree_width: int = 1
    publish: bool = False
    grammar: str = ""
    held_tokens: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    tenant: str = ""
    hidden_layers: tuple[int, ...] = ()
    hidden_size: int = 0
    hidden_states: HiddenStates | None = None
    ahead: int = 0
    shown_temperature: float = 0.0


def tenant_key(cache_salt: str) -> str:
    """What a draft is told of a request's ``cache_salt``: the same on every replica, and not the salt."""
    return hashlib.sha256(b"tandem tenant\0" + cache_salt.encode()).hexdigest() if cache_salt else ""


@dataclass(frozen=True, slots=True)
class Commit:
    """Which guesses of block ``block_id`` (0: none was verified) stand, from its root down; what follows.

    ``tree_width``: of the block asked for; 0: as before.
    ``hidden_states``: of positions that were not sent before.
    ``next_block_id``: a block that was sent ahead, and is verified next; none is asked for. 0: one is.
    ``ahead``: most blocks that may be sent ahead until the next commit, of ``block_size`` each.
    """

    session_id: str
    base_length: int
    block_id: int
    accepted_nodes: tuple[int, ...]
    token_ids: tuple[int, ...]
    block_size: int
    tree_width: int = 0
    hidden_states: HiddenStates | None = None
    next_block_id: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Close:
    session_id: str


SessionUpdate = Open | Commit | Close


@dataclass(frozen=True, slots=True)
class Proposed:
    session_id: str
    block: Block


@dataclass(frozen=True, slots=True)
class Refused:
    session_id: str
    code: str
    message: str


SessionAnswer = Proposed | Refused
