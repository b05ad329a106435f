"""A feature head: from the target's last hidden state and the token that followed it to the next state.

EAGLE (Li et al. 2024, "Speculative Sampling Requires Rethinking Feature Uncertainty"); several of the
target's layers may be read at once, as in EAGLE-3 (Li et al. 2025, "Scaling up Inference Acceleration via
Training-Time Test").
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from draft_service.heads.layer import Layer, Norm
from draft_service.heads.shape import Shape

_INIT_SCALE = 0.02


class EagleHead(nn.Module):
    """A feature is what the target's output head reads: its last hidden state after the final norm.

    A row of input joins the feature of a position with the embedding of the token after it; the row's output
    is a guess at the feature of that token, from which the next token is told.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        hidden = shape.hidden
        self.fuse = (
            nn.Linear(len(shape.layers) * hidden, hidden, bias=False) if len(shape.layers) > 1 else None
        )
        self.embedding_norm = Norm(hidden, shape.epsilon)
        self.feature_norm = Norm(hidden, shape.epsilon)
        self.join = nn.Linear(2 * hidden, hidden, bias=False)
        self.layer = Layer(shape)
        self.norm: Tensor
        self.register_buffer("norm", torch.ones(hidden), persistent=False)  # the target's

    @torch.no_grad()
    def start_as_copy(self) -> None:
        """Begin with the last layer's state passed on, the token's embedding added."""
        hidden = self.shape.hidden
        if self.fuse is not None:
            self.fuse.weight.normal_(std=_INIT_SCALE)
            self.fuse.weight[:, -hidden:] += torch.eye(hidden)
        self.join.weight.normal_(std=_INIT_SCALE)
        self.join.weight[:, :hidden] += torch.eye(hidden)
        self.join.weight[:, hidden:] += torch.eye(hidden)

    def features(self, states: Tensor) -> Tensor:
        """The target's hidden states, [..., layers * hidden], as a first step reads them: [..., hidden].

        Each layer's state is normalised on its own: some have a few channels a hundred times the others.
        """
        if self.fuse is None:
            return states
        parts = F.rms_norm(states.unflatten(-1, (len(self.shape.layers), -1)), (self.shape.hidden,))
        return self.fuse(parts.flatten(-2))  # type: ignore[no-any-return]

    def inputs(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """[..., hidden] each, a feature with the embedding of the token after it."""
        joined = torch.cat((self.embedding_norm(embeddings), self.feature_norm(features)), -1)
        return self.join(joined)  # type: ignore[no-any-return]

    def outputs(self, x: Tensor) -> Tensor:
        """What the layer has made, through the target's final norm: guesses at features."""
        return F.rms_norm(x, (self.shape.hidden,), self.norm.to(x.dtype), self.shape.epsilon)
