"""Tiny heads for the tiny target, untrained or taught for a moment."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from common.model.runner import ModelRunner
from draft_service.heads import files
from draft_service.heads.files import Head
from draft_service.heads.running import RunningHead
from draft_service.heads.shape import Kind, Shape
from draft_service.heads.target import TargetParts
from training import answers
from training.answers import Answers
from training.checkpoints import Checkpoints
from training.states import States, StateWriter, blocks_needed
from training.trainer import Settings, Trainer
from training.windows import Windows

VOCABULARY = 48
HIDDEN = 32


def tiny_shape(
    kind: Kind = "eagle", layers: tuple[int, ...] = (2,), window: int = 64, depth: int = 3
) -> Shape:
    """Of the model that ``support.models.tiny_model`` makes."""
    return Shape(
        kind=kind,
        layers=layers,
        depth=depth,
        vocabulary=VOCABULARY,
        window=window,
        hidden=HIDDEN,
        heads=4,
        kv_heads=2,
        head_size=8,
        intermediate=64,
        epsilon=1e-6,
        rope_theta=10_000.0,
    )


def tiny_head(shape: Shape, seed: int = 0) -> Head:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = files.make(shape)
        head.start_as_copy()
    return head


def tiny_parts(model: Any, dtype: torch.dtype = torch.float32) -> TargetParts:
    """A head can guess the first tokens of the vocabulary."""
    return TargetParts(
        model.model.embed_tokens.weight.detach().to(dtype),
        model.lm_head.weight.detach()[:VOCABULARY].to(dtype),
        model.model.norm.weight.detach().float(),
    )


def tiny_running(model: Any, shape: Shape, seed: int = 0) -> RunningHead:
    head = tiny_head(shape, seed).eval().requires_grad_(False)
    return RunningHead(head, tiny_parts(model), torch.arange(VOCABULARY), "tiny")


def own_answers(model: Any, count: int, length: int = 40) -> Answers:
    """Greedy answers of a tiny target to prompts of three tokens, longer than any end of sequence."""
    prompts = [[2 + index % 40, 2 + index * 7 % 40, 5] for index in range(count)]
    tokens = torch.tensor(prompts)
    with torch.inference_mode():
        for _ in range(length):
            logits = model(input_ids=tokens, use_cache=False).logits[:, -1]
            tokens = torch.cat((tokens, logits.argmax(-1, keepdim=True)), 1)
    return answers.gather(tokens.tolist(), [3] * count, [0.0] * count)


def own_states(folder: Path, model: Any, found: Answers, layers: tuple[int, ...] = (2,)) -> States:
    """``model``: one that runs on ``ModelRunner``; a copy of it does."""
    parts = tiny_parts(model)
    writer = StateWriter(folder, found, len(layers) * HIDDEN, "tiny")
    full_head = model.lm_head.weight.detach()
    return writer.write(
        lambda: ModelRunner(copy.deepcopy(model), blocks_needed(found), layers), parts, full_head
    )


def tiny_trainer(
    folder: Path, model: Any, found: Answers, states: States, shape: Shape, **settings: Any
) -> Trainer:
    """With a head of its own; ``settings`` are fields of ``trainer.Settings``."""
    head, parts = tiny_head(shape), tiny_parts(model)
    head.norm.copy_(parts.norm)
    windows = Windows(found, states, length=24, batch=8, prompt_weight=0.5, seed=1)
    chosen = {"steps": 60, "warmup": 5, "rollout": 2, "learning_rate": 5e-3} | settings
    return Trainer(head, parts, windows, Checkpoints(folder), Settings(**chosen))
