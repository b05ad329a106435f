"""Scripted drafts that propose trees of every shape: right somewhere, nowhere, or no trees at all."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from common import sampling, trees
from common.draft_types import Block, SparseDistribution
from tests.support.scripted.drafts import DraftSession, Propose
from tests.support.scripted.target import Script, Target


def branching(script: Script, right: float) -> Propose:
    """Grows a tree at random places; a guess is what the target would say there with chance ``right``."""

    def propose(session: DraftSession) -> Block:
        chance = random.Random(hash(tuple(session.tokens)))
        token_ids: list[int] = []
        parents: list[int] = []
        while len(token_ids) < session.block_size:
            siblings = trees.children(parents)
            open_rows = [row for row, found in enumerate(siblings) if len(found) < session.opened.tree_width]
            row = chance.choice(open_rows)
            path = [token_ids[node] for node in trees.path(parents, row - 1)]
            own = script.next([*session.tokens, *path])
            taken = {token_ids[node] for node in siblings[row]} | {own}
            wrong = chance.choice([t for t in range(1, script.vocabulary_size) if t not in taken])
            is_free = own not in {token_ids[node] for node in siblings[row]}
            token_ids.append(own if is_free and chance.random() < right else wrong)
            parents.append(row - 1)
        return session.block(token_ids, parents=parents)

    return propose


def decoys_first(script: Script) -> Propose:
    """At every level wrong guesses come first, then the right one, which the next level follows."""

    def propose(session: DraftSession) -> Block:
        token_ids: list[int] = []
        parents: list[int] = []
        path, parent = list(session.tokens), -1
        while len(token_ids) < session.block_size:
            own = script.next(path)
            wrong = (t for t in range(1, script.vocabulary_size) if t != own)
            level = [*(next(wrong) for _ in range(session.opened.tree_width - 1)), own]
            token_ids += level
            parents += [parent] * len(level)
            path.append(own)
            parent = len(token_ids) - 1
        return session.block(token_ids, parents=parents).prefix(session.block_size)

    return propose


def hostile(script: Script) -> Propose:
    """Trees that are none, one kind after the other, and chains that are right."""
    breaks: list[Callable[[Block], Block]] = [
        lambda block: block,
        lambda block: replace(block, parents=(0, *block.parents[1:])),
        lambda block: replace(block, parents=(*block.parents[:-1], len(block.parents))),
        lambda block: replace(block, parents=(*block.parents[:-1], -2)),
        lambda block: replace(block, parents=block.parents[:-1]),
        lambda block: replace(block, parents=(-1,) * len(block.parents)),
        lambda block: replace(block, parents=(-1,) * 2, token_ids=block.token_ids[:1] * 2),
    ]
    honest, calls = branching(script, 0.8), iter(range(10**6))

    def propose(session: DraftSession) -> Block:
        block = honest(session)
        assert isinstance(block, Block)
        return breaks[next(calls) % len(breaks)](block)

    return propose


def sampled_tree(draft: Target, support: int = sampling.MAX_SUPPORT) -> Propose:
    """An honest model draft, breadth first: siblings drawn without replacement, each with its own q."""

    def propose(session: DraftSession) -> Block:
        token_ids: list[int] = []
        parents: list[int] = []
        declared: list[SparseDistribution] = []
        row = 0
        while len(token_ids) < session.block_size:
            path = [token_ids[node] for node in trees.path(parents, row - 1)]
            logits = draft((*session.tokens, *path)).double()[None]
            probs = sampling.probabilities(logits, session.opened.sampling)[0]
            for _ in range(session.opened.tree_width):
                if not probs.any():
                    break
                parents.append(row - 1)
                q = sampling.draft_distribution(probs / probs.sum(), support)
                position, number = len(session.tokens) + len(path), trees.draws(parents)[-1]
                token_ids.append(sampling.choose_sparse(q, session.opened.noise_seed, position, number))
                declared.append(q)
                probs[token_ids[-1]] = 0
            row += 1
        return session.block(token_ids, declared, parents).prefix(session.block_size)

    return propose


def keyed_tree(draft: Target) -> Propose:
    """The candidates for the target's choice under its noise, the likeliest first, breadth first."""

    def propose(session: DraftSession) -> Block:
        token_ids: list[int] = []
        parents: list[int] = []
        row = 0
        while len(token_ids) < session.block_size:
            path = [token_ids[node] for node in trees.path(parents, row - 1)]
            for token_id in _candidates(draft, session, path):
                token_ids.append(token_id)
                parents.append(row - 1)
            row += 1
        return session.block(token_ids, parents=parents).prefix(session.block_size)

    return propose


def _candidates(draft: Target, session: DraftSession, path: Sequence[int]) -> list[int]:
    logits = draft((*session.tokens, *path)).double()[None]
    probs = sampling.probabilities(logits, session.opened.sampling)[0]
    found = []
    for _ in range(min(session.opened.tree_width, int((probs > 0).sum()))):
        token_id = sampling.choose(probs, session.opened.noise_seed, len(session.tokens) + len(path))
        found.append(token_id)
        probs = torch.where(torch.arange(len(probs)) == token_id, 0.0, probs)
    return found
