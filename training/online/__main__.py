"""``python -m training.online``: keeps the head of drafts fitted to their traffic, or goes a version back."""

from __future__ import annotations

import sys
import threading
from argparse import Namespace

import torch

from common import lifecycle, logging
from common.errors import ConfigError
from common.model import store
from draft_service.heads import files
from draft_service.heads.versions import Versions
from training import answers, precision, stopping
from training.online import metrics, options
from training.online.buffer import Buffer
from training.online.collector import Collector, connect
from training.online.publishing import Gate
from training.online.trigger import Requests, Thresholds
from training.online.tuning import Tuning
from training.online.worker import Worker, tuner
from training.target import Target

log = logging.get("online")


def main() -> None:
    asked = options.parse()
    logging.configure("training")
    try:
        _COMMANDS[asked.command](asked)
    except stopping.Stopped as stopped:
        print(f"stopped, to be resumed; {stopped}")
    except (ConfigError, ValueError, OSError) as error:
        sys.exit(f"training.online: {error}")


def _roll_back(asked: Namespace) -> None:
    version = Versions(asked.versions).roll_back()
    print(f"version {version.number} is current")


def _list(asked: Namespace) -> None:
    versions = Versions(asked.versions)
    current = versions.current()
    for number in versions.numbers():
        version = versions.version(number)
        mark = "*" if number == current else " "
        print(f"{mark} {number} after {version.parent}: {version.card.get('reason', '')}")


def _work(asked: Namespace) -> None:
    general = [answers.load(path) for path in options.general(asked)]
    if not general:
        raise ConfigError("--general is needed for this model: answers that must not get worse")
    lifecycle.serve_metrics(asked.metrics_port)
    metrics.start_at_zero()
    target = Target.of(asked.model, asked.threads)
    torch.set_num_threads(target.threads)
    size = int(store.load_config(target.folder).vocab_size)
    versions = Versions(asked.versions)
    if not versions.current():
        first = files.load(options.start(asked))
        versions.publish(first.module(), first, {"reason": "what versions began with"})
    settings = _settings(asked)
    buffer = Buffer(asked.work / "samples", asked.kept_samples)
    worker = Worker(
        buffer,
        Requests(connect(asked.redis_url), asked.consumer, asked.pool),
        versions,
        asked.work,
        general=answers.join(general),
        size=size,
        tune=tuner(target, settings),
        settings=settings,
        thresholds=Thresholds(asked.every, asked.least),
        gate=Gate(asked.least_gain, asked.most_loss),
    )
    collector = Collector(
        connect(asked.redis_url), asked.consumer, buffer, target.tokenizer.fingerprint, size
    )
    with stopping.asked() as stop:
        collecting = threading.Thread(target=collector.run, args=(stop,))
        collecting.start()
        log.info("ready", version=versions.current(), samples=buffer.end)
        try:
            worker.run(stop)
        finally:
            stop.set()
            collecting.join()
    print("stopped")


def _settings(asked: Namespace) -> Tuning:
    return Tuning(
        steps=asked.steps,
        minutes=asked.minutes,
        learning_rate=asked.learning_rate,
        length=asked.length,
        replayed=asked.replayed,
        measured_rows=asked.measured_rows,
        most_tokens=asked.most_tokens,
        precision=precision.fastest() if asked.precision == "auto" else getattr(torch, asked.precision),
    )


_COMMANDS = {"work": _work, "rollback": _roll_back, "list": _list}

if __name__ == "__main__":
    main()
