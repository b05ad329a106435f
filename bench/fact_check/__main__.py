"""``python -m bench.fact_check``: blocks per second per worker; with ``--kill``, whether all goes well; with
``--waits``, how long steps of the verify service wait for verdicts."""

from __future__ import annotations

import argparse
import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from resource import RUSAGE_CHILDREN, getrusage

from bench import stopping
from bench.fact_check import trial, waiting
from tandem.stack import valkey_command
from verify_service.config import Config as VerifyConfig

_START_SECONDS = 10.0
_BLOCKS_PER_KILL = 1_000
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "longest": 1.0}


def main() -> None:
    options = _options()
    stopping.as_after_ctrl_c()
    if options.waits:
        _wait(options)
    else:
        _check(options)


def _wait(options: argparse.Namespace) -> None:
    with _valkey() as url:
        waits = asyncio.run(
            waiting.run(
                url,
                options.waits,
                options.sequences,
                options.workers,
                options.seed,
                budget_seconds=options.budget_ms / 1000,
                lead_seconds=options.lead_ms / 1000,
            )
        )
    print(f"steps {options.waits}, blocks per step {options.sequences}, workers {options.workers}")
    print(
        f"budget {options.budget_ms:g} ms, drafted {options.lead_ms:g} ms before; "
        f"verdicts in time {waits.in_time / waits.blocks:.1%}"
    )
    shown = (f"{name} {waits.quantile(share) * 1000:.2f}" for name, share in _QUANTILES.items())
    print(f"a step waited, in ms: {', '.join(shown)}")


def _check(options: argparse.Namespace) -> None:
    kills = options.blocks // _BLOCKS_PER_KILL if options.kill else 0
    with _valkey() as url:
        outcome = asyncio.run(trial.run(url, options.blocks, options.workers, kills, options.seed))
        used = getrusage(RUSAGE_CHILDREN)  # of the workers: the server has not ended yet
    rate = outcome.blocks / outcome.seconds
    busy = used.ru_utime + used.ru_stime
    print(f"blocks {outcome.blocks}, workers {options.workers}, killed {outcome.kills}")
    print(f"{rate:.0f} blocks/s, {rate / options.workers:.0f} per worker; workers' CPU {busy:.1f} s")
    print(f"without a verdict {outcome.missing}, with more than one {outcome.repeated}")
    print(f"left pending or unread {outcome.unsettled}, dead letters {outcome.dead_letters}")
    sys.exit(not outcome.exact)


@contextmanager
def _valkey() -> Iterator[str]:
    """An empty server of our own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = (*valkey_command(port), "--dir", folder)
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(port):
        if time.monotonic() > deadline:
            raise TimeoutError("valkey did not start")
        time.sleep(0.02)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fact_check", description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kill", action="store_true", help="kill a worker now and then, and start another")
    parser.add_argument("--waits", type=int, default=0, help="so many steps that wait, instead")
    parser.add_argument("--sequences", type=int, default=1, help="blocks that a step waits for")
    parser.add_argument("--budget-ms", type=float, default=VerifyConfig().tag_wait_ms, help="of a wait")
    parser.add_argument("--lead-ms", type=float, default=0, help="from a block's draft to its step")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
