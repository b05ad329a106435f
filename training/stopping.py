"""A run that is asked to stop ends where it can be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(Exception):
    """A run ended early because it was asked to; the message says what it leaves."""


@contextmanager
def asked() -> Iterator[threading.Event]:
    """Set by a first Ctrl-C or SIGTERM; a second one acts as it did before.

    A shell has what it runs in the background ignore Ctrl-C; who sends SIGINT to it by hand is heard too.
    """
    event = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(*_: object) -> None:
        event.set()
        restore()

    for number in before:
        signal.signal(number, ask)
    try:
        yield event
    finally:
        restore()
