"""``tandem serve``: the stack in the foreground, under supervisord."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from tandem.ready import wait_ready
from tandem.stack import Ports, Stack, model

_READY_SECONDS = 300


def serve() -> int:
    """Run until Ctrl-C, which drains: the gateway finishes its streams before what it needs is stopped."""
    if prepare() != 0:
        return 1
    stack = Stack(ports=_ports())
    with tempfile.TemporaryDirectory(prefix="tandem-") as folder:
        config = stack.write_supervisor_config(Path(folder), log_folder=None)
        threading.Thread(target=_announce, args=(stack,), daemon=True).start()
        supervisor = subprocess.Popen([sys.executable, "-m", "supervisor.supervisord", "-n", "-c", config])
        while True:
            try:
                return supervisor.wait()
            except KeyboardInterrupt:
                continue  # supervisord has had the signal too and is draining


def prepare() -> int:
    """Convert the model and compile the kernel once, before several processes ask; shows a progress bar."""
    code = "import sys; from common.model import loading; loading.prepare(sys.argv[1])"
    return subprocess.run([sys.executable, "-c", code, model()], check=False).returncode


def _ports() -> Ports:
    """The defaults, but where the environment moves a service that others must find."""
    moved = {
        "gateway": "TANDEM_GATEWAY_PORT",
        "router": "TANDEM_ROUTER_PORT",
        "verify": "TANDEM_VERIFY_PORT",
        "draft": "TANDEM_DRAFT_PORT",
        "valkey": "TANDEM_VALKEY_PORT",
        "router_metrics": "TANDEM_ROUTER_METRICS_PORT",
        "router_admin": "TANDEM_ROUTER_ADMIN_PORT",
    }
    given = {name: os.environ.get(variable, "") for name, variable in moved.items()}
    # A value that is no port is left for the service itself to refuse, by name.
    return replace(Ports(), **{name: int(port) for name, port in given.items() if port.isdigit()})


def _announce(stack: Stack) -> None:
    try:
        seconds = asyncio.run(wait_ready(stack, _READY_SECONDS))
    except TimeoutError:
        print(f"Tandem is not ready after {_READY_SECONDS} s; the log above says why.", flush=True)
    else:
        print(f"Tandem is ready after {seconds:.1f} s: {stack.url}/v1 (Ctrl-C stops it)", flush=True)
