"""``python -m training.router``: fits the router's classifier, says how good it is, writes its weights."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from router.classifier.model import WEIGHTS
from training.router import fitting, measures
from training.router.fitting import Fitted, Settings
from training.router.prompts import Prompt, from_files, from_spec_bench, from_templates

_DATA = Path(__file__).parents[2] / "../shared/data"


def main(arguments: Sequence[str] | None = None) -> None:
    asked = _options(arguments)
    prompts = _prompts(asked)
    settings = Settings(asked.strength, asked.least_groups, asked.folds, asked.seed)
    matrix, right = fitting.matrix_of(prompts), fitting.classes_of(prompts)
    scores = fitting.out_of_fold(prompts, matrix, settings)
    temperature = fitting.temperature_of(scores, right)
    print(measures.report(prompts, fitting.chances_of(scores, temperature), right))
    save(asked.out, fitting.fit(matrix, prompts, settings), temperature)
    print(f"temperature {temperature:.3f}; {asked.out}, {asked.out.stat().st_size / 1e6:.2f} MB")


def save(path: Path, fitted: Fitted, temperature: float) -> None:
    """As router.classifier loads it; weights in float16."""
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            weights=fitted.weights.astype(np.float16),
            bias=fitted.bias.astype(np.float32),
            temperature=np.float32(temperature),
        )


def _prompts(asked: argparse.Namespace) -> list[Prompt]:
    sources = [from_templates(asked.seed, asked.each)]
    if asked.data.is_dir():
        sources.append(from_spec_bench(asked.data / "spec_bench/dev.jsonl"))
        sources.append(from_files(asked.data / "prompts", asked.seed, asked.per_source))
    return list(itertools.chain.from_iterable(sources))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="training.router", description=__doc__)
    parser.add_argument("--data", type=Path, default=_DATA, help="folder of spec_bench and prompts")
    parser.add_argument("--each", type=int, default=12, help="prompts of each template")
    parser.add_argument("--per-source", type=int, default=60, help="most prompts of each file or task")
    parser.add_argument("--strength", type=float, default=20.0, help="the higher, the less regularisation")
    parser.add_argument("--least-groups", type=int, default=10, help="templates that must share a feature")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
