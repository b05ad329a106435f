"""The kernel: compiled once per machine type from the C++ beside this file, loaded through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from ctypes import POINTER, Structure, c_float, c_int32, c_void_p
from pathlib import Path

import torch

from common import logging
from common.model.cache import cache_dir

_SOURCES = Path(__file__).parent / "kernel"
_FLAGS = ("-std=c++20", "-O3", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC", "-pthread", "-w")
_COMPILE_SECONDS = 300

log = logging.get("kernel")


class Unavailable(Exception):
    """The kernel cannot be compiled or loaded here; the message says why."""


def instruction_set() -> str:
    """What the kernel is compiled for: ``TANDEM_KERNEL_ISA``, or the best this processor has."""
    return os.environ.get("TANDEM_KERNEL_ISA") or _detected()


def _detected() -> str:
    if platform.machine() not in ("x86_64", "AMD64"):
        return "generic"
    if torch.cpu._is_avx512_supported() and torch.cpu._is_vnni_supported():
        return "avx512-bf16" if torch.cpu._is_avx512_bf16_supported() else "avx512"
    return "avx2" if torch.cpu._is_avx2_supported() else "generic"


_ISA_FLAGS = {
    "avx512-bf16": ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"),
    "avx512": ("-march=x86-64-v4", "-mavx512vnni"),
    "avx2": ("-march=x86-64-v3",),
    "generic": (),
}


def numerics(weights: str) -> str:
    """Changes when the kernel's results may. AVX2 and AVX-512 give the same bits, but for bfloat16."""
    isa = instruction_set()
    same = isa in ("avx2", "avx512") or (isa == "avx512-bf16" and weights != "bfloat16")
    return f"{_digest('')}-{'fma' if same else isa}"


@functools.cache
def load() -> ctypes.CDLL:
    """Raises Unavailable."""
    try:
        library = ctypes.CDLL(str(build()))
    except OSError as error:
        raise Unavailable(f"the kernel cannot be loaded: {error}") from None
    library.tandem_create.argtypes = [POINTER(Config), POINTER(Weights)]
    library.tandem_create.restype = c_void_p
    library.tandem_run.argtypes = [c_void_p, POINTER(Pass)]
    library.tandem_run.restype = ctypes.c_int
    library.tandem_destroy.argtypes = [c_void_p]
    library.tandem_destroy.restype = None
    library.tandem_multiplier.argtypes = [c_int32]
    library.tandem_multiplier.restype = c_void_p
    library.tandem_multiply.argtypes = [c_void_p, POINTER(Linear), c_void_p, c_int32, c_void_p]
    library.tandem_multiply.restype = ctypes.c_int
    library.tandem_forget.argtypes = [c_void_p]
    library.tandem_forget.restype = None
    return library


def release_with(owner: object, release: Callable[[int], None], handle: int) -> None:
    """Call ``release(handle)`` when ``owner`` goes.

    Not when the process ends, where a pass may still be running and the system takes back everything; nor in
    a fork, which lacks the threads that would be waited for.
    """
    weakref.finalize(owner, _release, release, handle, os.getpid()).atexit = False


def _release(release: Callable[[int], None], handle: int, process: int) -> None:
    if os.getpid() == process:
        release(handle)


def build() -> Path:
    """The compiled kernel in the cache; compiled now if it is not there. Safe against a concurrent build.

    Raises:
        Unavailable: without a C++ compiler, or when it fails.
    """
    isa = instruction_set()
    if isa not in _ISA_FLAGS:
        raise Unavailable(f"TANDEM_KERNEL_ISA must be one of {', '.join(_ISA_FLAGS)}, not {isa!r}")
    target = cache_dir() / "kernels" / f"tandem-{isa}-{_digest(isa)}.so"
    if target.is_file():
        return target
    compiler = shlex.split(os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or "")
    if not compiler:
        raise Unavailable("no C++ compiler: install g++ or clang++, or set CXX")
    target.parent.mkdir(parents=True, exist_ok=True)
    log.info("compiling the kernel, once", isa=isa, compiler=shlex.join(compiler))
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as scratch:
        made = Path(scratch) / target.name
        _compile([*compiler, *_FLAGS, *_ISA_FLAGS[isa], str(_SOURCES / "forward.cpp"), "-o", str(made)])
        made.replace(target)
    return target


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the kernel did not compile: {error}") from None
    if done.returncode:
        raise Unavailable(f"the kernel did not compile: {done.stderr.strip()[-2000:]}")


def _digest(isa: str) -> str:
    content = hashlib.sha256(" ".join((*_FLAGS, *_ISA_FLAGS.get(isa, ()))).encode())
    for source in sorted(_SOURCES.iterdir()):
        content.update(source.read_bytes())
    return content.hexdigest()[:16]


class Linear(Structure):
    """As in kernel/linear.h."""

    _fields_ = (
        ("format", c_int32),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("reserved", c_int32),
        ("data", c_void_p),
        ("scales", c_void_p),
        ("bias", c_void_p),
    )


class Layer(Structure):
    _fields_ = (
        ("qkv", Linear),
        ("output", Linear),
        ("gate_up", Linear),
        ("down", Linear),
        ("input_norm", c_void_p),
        ("post_norm", c_void_p),
        ("query_norm", c_void_p),
        ("key_norm", c_void_p),
        ("window", c_int32),
        ("reserved", c_int32),
    )


class Config(Structure):
    """As in kernel/interface.h, like all that follow."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                "layers",
                "hidden",
                "heads",
                "kv_heads",
                "head_size",
                "intermediate",
                "vocabulary",
                "num_blocks",
                "threads",
                "half_cache",
                "positions",
                "hidden_layers",
            )
        ),
        ("epsilon", c_float),
        ("attention_scale", c_float),
    )


class Weights(Structure):
    _fields_ = (
        ("layers", POINTER(Layer)),
        ("embedding", Linear),
        ("head", Linear),
        ("final_norm", c_void_p),
        ("cosines", c_void_p),
        ("sines", c_void_p),
        ("hidden_layers", c_void_p),
        ("join", Linear),
        ("embedding_norm", c_void_p),
        ("feature_norm", c_void_p),
    )


class Pass(Structure):
    _fields_ = (
        ("rows", c_int32),
        ("segments", c_int32),
        ("logits", c_int32),
        ("moves", c_int32),
        *(
            (name, c_void_p)
            for name in (
                "token_ids",
                "positions",
                "parents",
                "segment",
                "blocks",
                "logit_rows",
                "move_sources",
                "move_targets",
                "features",
                "out",
                "hidden",
            )
        ),
    )
