"""``python -m bench.distil``: a head before and after one round on a shifted domain.

The target answers the domain's prompts; its answers are the traffic, a sixteenth of the prompts held out.
General answers are replayed beside them, and their own held-out rows say what was forgotten.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from bench import markdown
from bench.distil.prompts import arithmetic
from common.model import store
from common.samples import LIKELIEST
from draft_service.heads import files
from training import answers, generation, precision, stopping
from training.answers import Answers
from training.online import tuning
from training.online.publishing import Gate
from training.online.traffic import Traffic, held_out
from training.online.tuning import Measured, Tuned, Tuning
from training.target import Target


def main() -> None:
    asked = _options()
    torch.set_num_threads(asked.threads)
    started, before = time.monotonic(), os.times()
    target = Target.of(asked.model, asked.threads)
    with stopping.asked() as stop:
        traffic = _traffic(asked, target)
        general = answers.join([answers.load(path) for path in asked.general])
        chosen = Tuning(
            steps=asked.steps,
            learning_rate=asked.learning_rate,
            replayed=asked.replayed,
            measured_rows=asked.measured_rows,
            precision=precision.fastest(),
        )
        size = int(store.load_config(target.folder).vocab_size)
        found = tuning.material(traffic, general, size, chosen)
        tuned = tuning.tune(target, files.load(asked.head), found, asked.work, tuning=chosen, stop=stop)
    files.save(asked.work / "tuned.safetensors", tuned.head, tuned.file)
    after = os.times()
    cpu = after.user + after.system - before.user - before.system
    print(_table(tuned))
    print(f"{Gate().judge(tuned.before, tuned.after).reason}")
    print(f"{(time.monotonic() - started) / 60:.1f} minutes, {cpu / 60:.1f} minutes of CPU")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.distil", description=__doc__)
    parser.add_argument("--head", type=Path, required=True, help="the head to begin with")
    parser.add_argument("--general", type=Path, nargs="+", required=True, help=".npz files of answers")
    parser.add_argument("--prompts", type=Path, help="JSON lines of the domain; default: Chinese arithmetic")
    parser.add_argument("--model", default=store.EMBEDDED)
    parser.add_argument("--work", type=Path, default=Path("build/distil"))
    parser.add_argument("--answers", type=int, default=900, help="of the domain")
    parser.add_argument("--answer-tokens", type=int, default=96)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--replayed", type=float, default=1.5)
    parser.add_argument("--measured-rows", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _traffic(asked: argparse.Namespace, target: Target) -> Traffic:
    """Answers as they would have been sampled; nothing was published of them."""
    path = asked.work / "traffic.npz"
    if not path.is_file():
        answers.save(path, _generated(asked, target))
    found = answers.load(path)
    count = found.answer_tokens
    nothing = np.zeros((count, LIKELIEST))
    return Traffic(
        found,
        np.array(["domain"] * len(found)),
        nothing.astype(np.uint32),
        nothing.astype(np.float16),
    )


def _generated(asked: argparse.Namespace, target: Target) -> Answers:
    if asked.prompts:
        given = generation.read_prompts([asked.prompts])
        texts = [given[index % len(given)] for index in range(asked.answers)]
    else:
        texts = arithmetic(asked.answers, asked.seed)
    runner = target.runner(generation.blocks_needed(asked.at_once, asked.answer_tokens))
    generator = generation.Generator(
        runner,
        target.tokenizer.eos_token_ids,
        at_once=asked.at_once,
        max_tokens=asked.answer_tokens,
        seed=asked.seed,
    )
    rows, lengths, temperatures, held = [], [], [], []
    tasks = generation.tasks(texts, target.tokenizer, asked.seed)
    for task, answer in tqdm(generator.answers(tasks), desc="answers", total=len(texts)):
        rows.append([*task.prompt, *answer])
        lengths.append(len(task.prompt))
        temperatures.append(task.temperature)
        held.append(held_out(task.prompt))
    return answers.gather(rows, lengths, temperatures, np.array(held))


def _table(tuned: Tuned) -> str:
    rows = []
    for name, part in (("the domain", "traffic"), ("elsewhere", "elsewhere")):
        for when, measured in (("before", tuned.before), ("after", tuned.after)):
            rows.append([name, when, *_numbers(measured, part)])
    return markdown.table(
        ["held out", "", "guesses that stand", "first", "second", "third", "tokens a step"], rows
    )


def _numbers(measured: Measured, part: str) -> list[str]:
    found = getattr(measured, part)
    shares = [found.rate, *found.reached[:3]]
    return [*(f"{100 * share:.1f} %" for share in shares), f"{found.tokens_per_step:.2f}"]


if __name__ == "__main__":
    main()
