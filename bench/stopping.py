"""How a measurement is stopped: whatever it has started is ended with it."""

from __future__ import annotations

import signal


def as_after_ctrl_c() -> None:
    """SIGTERM unwinds what is running, as Ctrl-C does, instead of ending this process alone."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
