"""What bounds a CPU's decoding speed: instruction sets, threads, and how fast memory is read."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")
_INSTRUCTION_SETS = (
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx_vnni",
    "amx_int8",
    "amx_bf16",
)
_FLOATS = 2**28  # a gibibyte, beyond any cache
_READS = 5


@dataclass(frozen=True)
class Machine:
    """``read_bandwidth`` in bytes per second, with ``threads`` reading at once."""

    processor: str
    instruction_sets: tuple[str, ...]
    threads: int
    read_bandwidth: float

    def __str__(self) -> str:
        return (
            f"{self.processor}; {' '.join(self.instruction_sets) or 'no vector instructions known'}; "
            f"{self.threads} threads; reads {self.read_bandwidth / 1e9:.1f} GB/s"
        )


def describe() -> Machine:
    """Takes about a second and a gibibyte."""
    threads = os.cpu_count() or 1
    info = _CPU_INFO.read_text() if _CPU_INFO.is_file() else ""
    return Machine(_processor(info), instruction_sets(info), threads, _read_bandwidth(threads))


def instruction_sets(cpu_info: str) -> tuple[str, ...]:
    """Those of interest among the flags of the first processor of a ``/proc/cpuinfo``."""
    flags = set(_field(cpu_info, "flags").split())
    return tuple(name for name in _INSTRUCTION_SETS if name in flags)


def _processor(cpu_info: str) -> str:
    return _field(cpu_info, "model name") or platform.processor() or platform.machine()


def _field(cpu_info: str, name: str) -> str:
    rows = (line.partition(":") for line in cpu_info.splitlines())
    return next((value.strip() for key, _, value in rows if key.strip() == name), "")


def _read_bandwidth(threads: int) -> float:
    """The best of a few sums over more than the caches hold."""
    torch.set_num_threads(threads)
    values = torch.ones(_FLOATS)
    times = []
    for _ in range(_READS):
        started = time.perf_counter()
        values.sum()
        times.append(time.perf_counter() - started)
    return values.nbytes / min(times)
