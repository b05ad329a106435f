"""What ``python -m training.online`` may be told."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from pathlib import Path

from common.model import store
from draft_service.heads import running
from training.online.publishing import Gate
from training.online.trigger import Thresholds
from training.online.tuning import Tuning

_DATA = Path(__file__).parents[1] / "data"
_KEPT_SAMPLES = 20_000
_TUNING, _THRESHOLDS, _GATE = Tuning(), Thresholds(), Gate()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="training.online", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("work", "rollback", "list"), default="work")
    parser.add_argument("--versions", type=Path, required=True, help="TANDEM_DRAFT_VERSIONS of the drafts")
    parser.add_argument("--redis-url", default="redis://127.0.0.1:16379/0")
    parser.add_argument("--model", default=store.EMBEDDED, help="the target, as the services name it")
    parser.add_argument("--kind", choices=("eagle", "medusa"), default="eagle")
    parser.add_argument("--head", type=Path, help="to begin with; default: the one shipped for the target")
    parser.add_argument("--general", type=Path, nargs="+", default=[], help=".npz files of other answers")
    parser.add_argument("--pool", default="", help="whose requests for training are heard; empty: all")
    parser.add_argument("--consumer", default=socket.gethostname(), help="one for each worker")
    parser.add_argument("--work", type=Path, default=Path("build/online"), help="samples and rounds")
    parser.add_argument("--kept-samples", type=int, default=_KEPT_SAMPLES)
    parser.add_argument("--metrics-port", type=int, default=0, help="0: none")
    _add_rounds(parser)
    return parser.parse_args(arguments)


def _add_rounds(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("rounds")
    group.add_argument("--every", type=int, default=_THRESHOLDS.every, help="new samples; then one begins")
    group.add_argument("--least", type=int, default=_THRESHOLDS.least, help="samples of a class asked for")
    group.add_argument("--steps", type=int, default=_TUNING.steps)
    group.add_argument("--minutes", type=float, default=_TUNING.minutes, help="longest training; 0: no limit")
    group.add_argument("--learning-rate", type=float, default=_TUNING.learning_rate)
    group.add_argument("--length", type=int, default=_TUNING.length, help="tokens of a window")
    group.add_argument("--replayed", type=float, default=_TUNING.replayed, help="general tokens for each one")
    group.add_argument("--most-tokens", type=int, default=_TUNING.most_tokens, help="of traffic in a round")
    group.add_argument("--measured-rows", type=int, default=_TUNING.measured_rows)
    group.add_argument("--least-gain", type=float, default=_GATE.least_gain, help="on the traffic, of 1")
    group.add_argument("--most-loss", type=float, default=_GATE.most_loss, help="elsewhere, of 1")
    group.add_argument("--threads", type=int, default=1, help="0: one per core")
    group.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto")


def general(asked: argparse.Namespace) -> list[Path]:
    """The files that were named, or those that are kept for the model."""
    kept = _DATA / f"{Path(asked.model).name}-chat.npz"
    return asked.general or [path for path in [kept] if path.is_file()]


def start(asked: argparse.Namespace) -> Path:
    return asked.head or running.shipped(asked.model, asked.kind)
