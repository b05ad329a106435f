"""Heads that each guess a token further on from one hidden state.

Medusa (Cai et al. 2024); as in Hydra (Ankner et al. 2024) the heads also see the token that followed.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from draft_service.heads.layer import Norm
from draft_service.heads.shape import Shape

_INIT_SCALE = 0.02


class MedusaHead(nn.Module):
    """``depth`` residual blocks; block k guesses the feature k positions after the token it is shown."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        hidden = shape.hidden
        self.embedding_norm = Norm(hidden, shape.epsilon)
        self.state_norm = Norm(len(shape.layers) * hidden, shape.epsilon)
        self.join = nn.Linear((1 + len(shape.layers)) * hidden, hidden, bias=False)
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(shape.depth))
        self.norm: Tensor
        self.register_buffer("norm", torch.ones(hidden), persistent=False)  # the target's

    @torch.no_grad()
    def start_as_copy(self) -> None:
        """Begin with the last layer's state passed on; the blocks add nothing yet, as in Medusa."""
        hidden = self.shape.hidden
        self.join.weight.normal_(std=_INIT_SCALE)
        self.join.weight[:, -hidden:] += torch.eye(hidden)
        for parameter in self.blocks.parameters():
            parameter.zero_()

    def forward(self, embeddings: Tensor, states: Tensor) -> Tensor:
        """[..., hidden] and [..., layers * hidden] to guesses at features, [depth, ..., hidden]."""
        x = self.join(torch.cat((self.embedding_norm(embeddings), self.state_norm(states)), -1))
        guesses = torch.stack([x + F.silu(block(x)) for block in self.blocks])
        return F.rms_norm(guesses, (self.shape.hidden,), self.norm.to(x.dtype), self.shape.epsilon)
