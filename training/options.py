"""What ``python -m training`` may be told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from common.model import store
from training.losses import DIVERGENCES

_WORK = Path("build/training")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="training", description="Train a head for the draft service.")
    parser.add_argument("--model", default=store.EMBEDDED, help="the target, as the services name it")
    parser.add_argument("--work", type=Path, default=_WORK, help="folder of answers, states and checkpoints")
    parser.add_argument("--threads", type=int, default=0, help="0: one per core")
    parser.add_argument("--seed", type=int, default=0)
    _add_data(parser)
    _add_head(parser)
    _add_training(parser)
    return parser.parse_args(arguments)


def _add_data(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("answers")
    group.add_argument("--answers", type=Path, nargs="*", default=[], help=".npz files made before")
    group.add_argument("--prompts", type=Path, nargs="*", default=[], help="JSON lines to answer")
    group.add_argument("--generate", type=int, default=0, metavar="TOKENS", help="answer tokens to make")
    group.add_argument("--synthetic", type=float, default=0.25, help="part of them to prompts of its own")
    group.add_argument(
        "--openings",
        nargs="*",
        default=[""],
        metavar="TEXT",
        help='how its own prompts begin, in turn, such as "Summarize:"; empty: as it likes',
    )
    group.add_argument("--prompt-tokens", type=int, default=160, help="longest prompt of its own")
    group.add_argument("--answer-tokens", type=int, default=224, help="longest answer")
    group.add_argument("--at-once", type=int, default=48, help="answers generated at a time")
    group.add_argument("--max-tokens", type=int, default=4_000_000, help="most tokens whose states are kept")


def _add_head(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("head")
    group.add_argument("--kind", choices=("eagle", "medusa"), default="eagle")
    group.add_argument("--layers", type=int, nargs="+", default=[], help="hidden states it reads; the last")
    group.add_argument("--vocabulary", type=int, default=8192, help="tokens it can guess")
    group.add_argument("--window", type=int, default=256, help="positions it looks back to")
    group.add_argument("--depth", type=int, default=3, help="steps of the rollout, or heads of medusa")
    group.add_argument("--resume-from", type=Path, help="a head to begin with, instead of a new one")


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument("--steps", type=int, default=3000)
    group.add_argument("--minutes", type=float, default=0, help="stop, to be resumed, after that long; 0: no")
    group.add_argument("--length", type=int, default=160, help="tokens of a window")
    group.add_argument("--batch", type=int, default=32, help="windows of a batch")
    group.add_argument("--learning-rate", type=float, default=1e-3)
    group.add_argument("--decay", type=float, default=0.8, help="what each further step counts")
    group.add_argument("--prompt-weight", type=float, default=0.3, help="what a prompt's token counts")
    group.add_argument("--loss", choices=tuple(DIVERGENCES), default="kl")
    group.add_argument("--feature-weight", type=float, default=0.1)
    group.add_argument("--contrastive-weight", type=float, default=0.0)
    group.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto")
    group.add_argument("--measure-every", type=int, default=200)
    group.add_argument("--measured-rows", type=int, default=64, help="held-out greedy answers")
    group.add_argument("--out", type=Path, help="where the trained head goes; default: in the work folder")
    group.add_argument("--plot", action="store_true", help="draw the held-out acceptance; needs matplotlib")
