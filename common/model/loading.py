"""From a model's name to a runner: which weights, which backend."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from common import logging
from common.errors import ConfigError
from common.model import linear, store
from common.model.batch import Runner
from common.model.fused import library
from common.model.fused.architecture import Architecture, Unsupported
from common.model.fused.layout import GROUP, int4_values
from common.model.fused.packed_file import packed_file
from common.model.fused.runner import FusedRunner
from common.model.fused.weights import RECIPES
from common.model.runner import ModelRunner

log = logging.get("model")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that is ready to run.

    Attributes:
        config: transformers' configuration of it.
        backend: ``fused``, the kernel, or ``general``, transformers' own modules.
        numerics: changes when the tokens it yields may.
    """

    runner: Runner
    config: Any
    folder: str
    device: str
    weights: str
    backend: str
    numerics: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    Attributes:
        name: of the model, see ``store.resolve``.
        num_blocks: of the KV pool.
        threads: that compute on a CPU.
        weights: ``auto`` is, on a CPU, int4 for a model that int4 leaves as it is, else bfloat16 where the
            hardware multiplies it, else float32; bfloat16 on a GPU.
        backend: ``auto`` is ``fused`` where it runs the model, else ``general``.
        layers: keep only the first that many decoder layers.
        hidden_layers: as of ``ModelRunner``.
    """

    name: str
    num_blocks: int
    threads: int
    weights: str = "auto"
    backend: str = "auto"
    device: str = "auto"
    layers: int | None = None
    hidden_layers: Sequence[int] = ()


def prepare(name: str) -> None:
    """Do what is done once for a model and a machine: conversion and compilation."""
    store.resolve(name)
    try:
        library.build()
    except library.Unavailable as error:
        log.warning("there is no kernel here; models run on the general backend", because=str(error))


def load(wanted: Wanted) -> Loaded:
    """Raises ConfigError naming ``model``, ``weights``, ``backend``, ``device``, ``layers`` or
    ``hidden_layers``."""
    device = store.placement(wanted.device)
    folder = store.resolve(wanted.name)
    config = store.load_config(folder, wanted.layers)
    if any(layer > config.num_hidden_layers for layer in wanted.hidden_layers):
        raise ConfigError(f"hidden_layers must be at most {config.num_hidden_layers}", field="hidden_layers")
    weights = _weights(wanted.weights, folder, device)
    wanted = replace(wanted, weights=weights, device=device)
    reason, backend = None, "fused"
    try:
        runner = _fused(folder, config, wanted)
    except (Unsupported, library.Unavailable) as error:
        if wanted.backend == "fused":
            raise ConfigError(f"the fused backend cannot run this model: {error}", field="backend") from None
        reason, backend = str(error), "general"
        runner = _general(folder, wanted)
    log.info("loaded", model=wanted.name, weights=weights, backend=backend, because=reason, device=device)
    return Loaded(runner, config, folder, device, weights, backend, _numerics(config, weights, backend))


def _weights(asked: str, folder: str, device: str) -> str:
    if asked == "auto":
        own_int4 = device == "cpu" and _is_int4(folder)
        return "int4" if own_int4 else str(store.default_dtype(device)).removeprefix("torch.")
    if asked in ("int8", "int4") and device != "cpu":
        raise ConfigError(f"{asked} weights are for a CPU, not for {device}", field="weights")
    return asked


def _is_int4(folder: str) -> bool:
    """Whether int4 leaves the values of the first and the last layer as they are."""
    last = store.load_config(folder).num_hidden_layers - 1
    kinds = ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")
    with store.open_tensors(folder) as tensors:
        weights = (tensors(f"model.layers.{layer}.{kind}.weight") for layer in (0, last) for kind in kinds)
        return all(weight is not None and _keeps_values(weight.float()) for weight in weights)


def _keeps_values(weight: Tensor) -> bool:
    if weight.shape[1] % GROUP:
        return False
    quanta, scale, minimum = int4_values(weight)
    return torch.equal((quanta * scale.float() + minimum.float()).flatten(1), weight)


def _fused(folder: str, config: Any, wanted: Wanted) -> Runner:
    """Raises Unsupported or Unavailable, which say why another backend must do."""
    if wanted.backend == "general":
        raise Unsupported("the general backend was asked for")
    if wanted.device != "cpu":
        raise Unsupported(f"it is for a CPU, not for {wanted.device}")
    if wanted.weights not in RECIPES:
        raise Unsupported(f"it has no {wanted.weights} weights")
    torch.set_num_threads(1)  # idle OpenMP threads would spin on the cores that the kernel's threads need
    place, layers = store.tensors_folder(folder), config.num_hidden_layers
    with store.open_tensors(place) as tensors, packed_file(place, wanted.weights, layers) as packed:
        return FusedRunner(
            Architecture.of(config),
            tensors,
            packed=packed,
            weights=wanted.weights,
            num_blocks=wanted.num_blocks,
            threads=wanted.threads,
            hidden_layers=wanted.hidden_layers,
        )


def _general(folder: str, wanted: Wanted) -> Runner:
    quantised = wanted.weights in ("int8", "int4")
    torch.set_num_threads(1 if quantised else wanted.threads)
    dtype = torch.float32 if quantised else getattr(torch, wanted.weights)
    model = store.load_model(folder, dtype, wanted.device, wanted.layers)
    if quantised:
        linear.quantise(model, wanted.weights, wanted.threads)
    return ModelRunner(model, wanted.num_blocks, wanted.hidden_layers)


def _numerics(config: Any, weights: str, backend: str) -> str:
    """The kernel gives the same bits wherever there are fused multiply-adds; torch's differ by version."""
    with_what = library.numerics(weights) if backend == "fused" else torch.__version__
    identity = f"{config.to_json_string()}{weights}{backend}{with_what}"
    return hashlib.sha256(identity.encode()).hexdigest()
