"""``python -m training``: answers, then states, then a head; each goes on from what is there already."""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from common.errors import ConfigError
from common.model import store
from draft_service.heads import files
from draft_service.heads.eagle import EagleHead
from draft_service.heads.files import Head, HeadFile
from draft_service.heads.shape import Shape
from draft_service.heads.target import TargetParts, load_last_layer, load_parts
from training import answers, generation, options, precision, states, stopping
from training.acceptance import Examiner, greedy_rows
from training.answers import Answers
from training.checkpoints import Checkpoints
from training.states import States
from training.target import Target
from training.trainer import Settings, Trainer
from training.windows import Windows

_EXAMINED_LENGTH = 5
_SAVE_EVERY_SECONDS = 60


def main() -> None:
    asked = options.parse()
    try:
        _run(asked)
    except stopping.Stopped as stopped:
        print(f"stopped, to be resumed; {stopped}")
    except (ConfigError, ValueError, OSError) as error:
        sys.exit(f"training: {error}")


def _run(asked: Namespace) -> None:
    if asked.plot and find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib, which the extra training brings")
    target = Target.of(asked.model, asked.threads)
    torch.set_num_threads(target.threads)
    found = _answers(asked, target)
    head, file = _head(asked, target, found)
    multiplied = precision.fastest() if asked.precision == "auto" else getattr(torch, asked.precision)
    parts = load_parts(target.folder, file.vocabulary, multiplied)
    kept = states.of_target(asked.work / "states", target, found, file, parts)
    head.norm.copy_(parts.norm)
    trainer = _trainer(asked, _windows(asked, found, kept), head, parts)
    trainer.resume()
    rows = greedy_rows(found, asked.measured_rows)
    examiner = Examiner(found, kept, file.vocabulary, length=_EXAMINED_LENGTH, rows=rows)
    finished = trainer.train(
        lambda: examiner.examine(head, parts).numbers(),
        measure_every=asked.measure_every,
        seconds=asked.minutes * 60 if asked.minutes else math.inf,
    )
    out = asked.out or asked.work / f"{asked.kind}.safetensors"
    files.save(out, head, file)
    print(f"{'trained' if finished else 'stopped, to be resumed'}; the head is in {out}")
    if asked.plot:
        _plot(trainer, out)


def _plot(trainer: Trainer, out: Path) -> None:
    from training import plot  # noqa: PLC0415 – matplotlib is an extra

    plot.draw(trainer.progress.history, out.with_suffix(".svg"))


def _answers(asked: Namespace, target: Target) -> Answers:
    """Those that were made before, and those that are asked for now."""
    made = answers.load(_own(asked)) if _own(asked).is_file() else None
    missing = asked.generate - (made.answer_tokens if made else 0)
    if missing > 0:
        with stopping.asked() as stop:
            made = _generate(asked, target, made, missing, stop)
    parts = [answers.load(path) for path in asked.answers] + ([made] if made else [])
    if not parts:
        raise ConfigError("nothing to train on: give --answers, or --prompts and --generate")
    return answers.join(parts).first(asked.max_tokens)


def _own(asked: Namespace) -> Path:
    """The file of the answers that were made for this run."""
    return Path(asked.work / "answers.npz")


def _generate(
    asked: Namespace, target: Target, made: Answers | None, missing: int, stop: threading.Event
) -> Answers:
    """Those made before and new ones; saved every minute and at the end.

    Raises:
        Stopped: when it was asked to stop, after it has saved.
    """
    runner = target.runner(generation.blocks_needed(asked.at_once, asked.answer_tokens))
    seed = asked.seed + (len(made) if made else 0)
    generator = generation.Generator(
        runner,
        target.tokenizer.eos_token_ids,
        at_once=asked.at_once,
        max_tokens=asked.answer_tokens,
        seed=seed,
        stop=stop,
    )
    rows: list[list[int]] = []
    lengths: list[int] = []
    temperatures: list[float] = []

    def save() -> Answers:
        fresh = answers.gather(rows, lengths, temperatures)
        whole = answers.join([made, fresh]) if made else fresh
        answers.save(_own(asked), whole)
        return whole

    saved = time.monotonic()
    with tqdm(total=missing, desc="answers", unit="token") as bar:
        for task, answer in generator.answers(_tasks(asked, target, generator, missing, seed)):
            rows.append([*task.prompt, *answer])
            lengths.append(len(task.prompt))
            temperatures.append(task.temperature)
            bar.update(len(answer))
            if bar.n >= missing:
                break
            if time.monotonic() - saved > _SAVE_EVERY_SECONDS:
                save()
                saved = time.monotonic()
    whole = save()
    if stop.is_set():
        raise stopping.Stopped(f"{whole.answer_tokens} answer tokens are in {_own(asked)}")
    return whole


def _tasks(
    asked: Namespace, target: Target, generator: generation.Generator, missing: int, seed: int
) -> Iterator[generation.Task]:
    """The target's own prompts first, as many as were asked for; then the given ones, again and again."""
    prompts = generation.read_prompts(asked.prompts)
    own = int(missing * (asked.synthetic if prompts else 1.0)) // asked.answer_tokens
    if own:
        begun = generation.user_turns(target.tokenizer, asked.openings)
        turns = list(generator.answers(itertools.islice(begun, own)))
        skipped = len(generation.bare_user_turn(target.tokenizer))
        whole = ([*task.prompt[skipped:], *turn][: asked.prompt_tokens] for task, turn in turns)
        yield from generation.tasks(map(target.tokenizer.decode, whole), target.tokenizer, seed)
    while prompts:
        yield from generation.tasks(prompts, target.tokenizer, seed := seed + 1)


def _head(asked: Namespace, target: Target, found: Answers) -> tuple[Head, HeadFile]:
    """The one to begin with: a trained one, or a new one that starts as the target's last layer."""
    if asked.resume_from:
        file = files.load(asked.resume_from)
        return file.module().train().requires_grad_(True), file
    size = min(asked.vocabulary, store.load_config(target.folder).vocab_size)
    shape = Shape.for_target(
        store.load_config(target.folder),
        asked.kind,
        asked.layers or [target.layers],
        depth=asked.depth,
        vocabulary=size,
        window=asked.window,
    )
    torch.manual_seed(asked.seed)
    head = files.make(shape)
    head.start_as_copy()
    if isinstance(head, EagleHead):
        head.layer.load_state_dict(load_last_layer(target.folder))
    version = f"{asked.kind}-{len(shape.layers)}x{shape.hidden}"
    return head, HeadFile(shape, {}, frequent_tokens(found, size), version, target.tokenizer.fingerprint)


def frequent_tokens(found: Answers, count: int) -> Tensor:
    """The tokens most frequent in answers and prompts, int64 [count]; of equals the lower id."""
    counts = np.bincount(found.tokens, minlength=count)
    return torch.from_numpy(np.argsort(-counts, kind="stable")[:count].copy())


def _windows(asked: Namespace, found: Answers, kept: States) -> Windows:
    return Windows(
        found,
        kept,
        length=asked.length,
        batch=asked.batch,
        prompt_weight=asked.prompt_weight,
        seed=asked.seed,
    )


def _trainer(asked: Namespace, windows: Windows, head: Head, parts: TargetParts) -> Trainer:
    settings = Settings(
        steps=asked.steps,
        rollout=asked.depth,
        learning_rate=asked.learning_rate,
        decay=asked.decay,
        loss=asked.loss,
        feature_weight=asked.feature_weight,
        contrastive_weight=asked.contrastive_weight,
        precision=parts.head.dtype,
    )
    return Trainer(head, parts, windows, Checkpoints(asked.work / "checkpoints"), settings)


if __name__ == "__main__":
    main()
