"""Opened sessions and the target's side of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.draft_types import Commit, Open
from common.types import Mode, SamplingParams
from draft_service.session import Session

GREEDY = SamplingParams(temperature=0)


def opening(
    session_id: str = "s",
    tokens: Sequence[int] = (1, 2, 3),
    *,
    block_size: int = 4,
    sampling: SamplingParams = GREEDY,
    mode: Mode = Mode.KEYED,
    noise_seed: int = 0,
    prompt_length: int | None = None,
    fingerprint: str = "ours",
    vocabulary_size: int = 64,
    tree_width: int = 1,
    hidden_layers: tuple[int, ...] = (),
    hidden_size: int = 0,
    publish: bool = False,
    grammar: str = "",
    held_tokens: Mapping[int, int] = {},
    tenant: str = "",
) -> Open:
    return Open(
        session_id=session_id,
        fingerprint=fingerprint,
        vocabulary_size=vocabulary_size,
        token_ids=list(tokens),
        prompt_length=len(tokens) if prompt_length is None else prompt_length,
        sampling=sampling,
        mode=mode,
        noise_seed=noise_seed,
        block_size=block_size,
        max_block_size=8,
        tree_width=tree_width,
        hidden_layers=hidden_layers,
        hidden_size=hidden_size,
        publish=publish,
        grammar=grammar,
        held_tokens=held_tokens,
        tenant=tenant,
    )


def commitment(
    session_id: str = "s",
    base_length: int = 3,
    *,
    block_id: int = 0,
    accepted: int | tuple[int, ...] = 0,
    tokens: Sequence[int] = (),
    block_size: int = 4,
) -> Commit:
    """``accepted``: the nodes, or how many guesses of a chain."""
    nodes = tuple(range(accepted)) if isinstance(accepted, int) else accepted
    return Commit(session_id, base_length, block_id, nodes, tuple(tokens), block_size)


def opened(
    session_id: str = "s",
    tokens: Sequence[int] = (1, 2, 3),
    *,
    block_size: int = 4,
    sampling: SamplingParams = GREEDY,
    mode: Mode = Mode.KEYED,
    noise_seed: int = 0,
    prompt_length: int | None = None,
    tree_width: int = 1,
    publish: bool = False,
    grammar: str = "",
    tenant: str = "",
) -> Session:
    update = opening(
        session_id,
        tokens,
        block_size=block_size,
        sampling=sampling,
        mode=mode,
        noise_seed=noise_seed,
        prompt_length=prompt_length,
        tree_width=tree_width,
        publish=publish,
        grammar=grammar,
        tenant=tenant,
    )
    return Session.opened(update)
