"""What a head would guess, several steps on, at every position of a batch at once.

Every step but the first reads what the head itself made in the step before (the "training-time test" of
EAGLE-3, Li et al. 2025), so that it learns from its own mistakes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draft_service.heads.eagle import EagleHead
from draft_service.heads.files import Head
from draft_service.heads.medusa import MedusaHead
from draft_service.heads.target import TargetParts
from training.windows import Batch


def roll_out(head: Head, parts: TargetParts, batch: Batch, steps: int) -> list[Tensor]:
    """Guesses at features, [windows, length - steps, hidden] of each step.

    Of step j, from 0 on, position i holds a guess at the feature of position i + 1 + j, made from the
    features up to i and the tokens up to i + 1 + j. So ``batch`` says itself what each should have been.
    """
    embeddings = torch.nn.functional.embedding(batch.tokens, parts.embedding)
    hidden = batch.hidden.to(embeddings.dtype)
    if isinstance(head, MedusaHead):
        anchors = batch.tokens.shape[1] - steps
        made: Tensor = head(embeddings[:, 1 : 1 + anchors], hidden[:, :anchors])
        return list(made[:steps])
    return _roll_out(head, embeddings, hidden, batch.rows, steps)


def _roll_out(head: EagleHead, embeddings: Tensor, hidden: Tensor, rows: Tensor, steps: int) -> list[Tensor]:
    anchors = rows.shape[1] - steps
    features = head.features(hidden[:, :anchors])
    keys: list[Tensor] = []
    values: list[Tensor] = []
    made = []
    for step in range(steps):
        x = head.inputs(embeddings[:, 1 + step : 1 + step + anchors], features)
        query, key, value = head.layer.query_key_value(x, torch.arange(step, step + anchors))
        keys.append(key)
        values.append(value)
        seen = _allowed(rows[:, :anchors], head.shape.window - step)
        x = head.layer.finish(x, _attend(query, keys, values, seen.logical_not()))
        features = head.outputs(x)
        made.append(features)
    return made


def _attend(query: Tensor, keys: list[Tensor], values: list[Tensor], hidden_from: Tensor) -> Tensor:
    """A step at position i sees the first step up to i, and of the later ones those at i alone.

    Args:
        query: [windows, heads, length, size].
        keys, values: of each step so far, [windows, kv heads, length, size].
        hidden_from: [windows, length, length].
    """
    _, heads, length, size = query.shape
    groups = heads // keys[0].shape[1]
    folded = query.unflatten(1, (-1, groups)) * size**-0.5  # [windows, kv heads, group, length, size]
    rows = folded.flatten(2, 3)
    committed = (rows @ keys[0].transpose(-1, -2)).unflatten(2, (groups, length))
    committed = committed.masked_fill(hidden_from[:, None, None], -torch.inf)
    own = [(folded * key.unsqueeze(2)).sum(-1, keepdim=True) for key in keys[1:]]
    weights = torch.cat((committed, *own), -1).softmax(-1).to(values[0].dtype)
    out = (weights[..., :length].flatten(2, 3) @ values[0]).unflatten(2, (groups, length))
    for index, value in enumerate(values[1:]):
        out = out + weights[..., length + index, None] * value.unsqueeze(2)
    joined: Tensor = out.flatten(1, 2)
    return joined


def _allowed(rows: Tensor, window: int) -> Tensor:
    """[windows, length, length]: earlier positions of the same answer, at most ``window`` with its own.

    Of the later steps each looks back one position less, as what it sees of its own takes a place.
    """
    places = torch.arange(rows.shape[1])
    behind = places.unsqueeze(1) - places
    return (rows.unsqueeze(2) == rows.unsqueeze(1)) & (behind >= 0) & (behind < window)


def targets_of(batch: Batch, step: int, steps: int) -> tuple[slice, Tensor]:
    """The places of the positions that step's guesses are about, and what each counts, [windows, length].

    Nothing counts where the guess and the place are of different answers.
    """
    anchors = batch.tokens.shape[1] - steps
    where = slice(1 + step, 1 + step + anchors)
    return where, batch.weights[:, where] * (batch.rows[:, where] == batch.rows[:, :anchors])
