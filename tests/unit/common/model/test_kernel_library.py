"""The kernel is compiled once, into the cache, and gone without harm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from transformers import Gemma2Config, LlamaConfig

from common.model.fused import library
from common.model.fused.architecture import Architecture, Unsupported
from common.model.fused.runner import FusedRunner
from tests.support import fused
from tests.support.kernels import environment


def compiler(folder: Path, body: str) -> str:
    """A compiler of our own: a shell script, ``$out`` being where the kernel is to go."""
    script = folder / "compiler.sh"
    script.write_text(f'for out; do :; done\necho called >> "{folder}/calls"\n{body}\n')
    return f"sh {script}"


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def test_many_who_need_the_kernel_at_once_all_get_it_and_leave_nothing_else(
    tmp_path: Path, cache: str
) -> None:
    copying = compiler(tmp_path, f'sleep 0.2; cp "{library.build()}" "$out"')
    with environment(CXX=copying, TANDEM_CACHE_DIR=cache), ThreadPoolExecutor(4) as threads:
        built = list(threads.map(lambda _: library.build(), range(4)))
        library.load()
    assert len(set(built)) == 1
    assert list((Path(cache) / "kernels").iterdir()) == built[:1]


def test_a_kernel_is_compiled_once(tmp_path: Path, cache: str) -> None:
    copying = compiler(tmp_path, f'cp "{library.build()}" "$out"')
    with environment(CXX=copying, TANDEM_CACHE_DIR=cache):
        assert library.build() == library.build()
    assert (tmp_path / "calls").read_text() == "called\n"


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing_behind(tmp_path: Path, cache: str) -> None:
    failing = compiler(tmp_path, 'echo half > "$out"; echo no such machine >&2; exit 1')
    with (
        environment(CXX=failing, TANDEM_CACHE_DIR=cache),
        pytest.raises(library.Unavailable, match="no such machine"),
    ):
        library.load()
    assert list((Path(cache) / "kernels").iterdir()) == []


def test_a_damaged_kernel_is_refused(tmp_path: Path, cache: str) -> None:
    with (
        environment(CXX=compiler(tmp_path, 'echo junk > "$out"'), TANDEM_CACHE_DIR=cache),
        pytest.raises(library.Unavailable, match="cannot be loaded"),
    ):
        library.load()


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        environment(TANDEM_CACHE_DIR=str(tmp_path / "file")),
        pytest.raises(library.Unavailable, match="cannot be loaded"),
    ):
        library.load()


@pytest.mark.parametrize(
    ("message", "config"),
    [
        ("gemma2", Gemma2Config()),
        ("activation", LlamaConfig(hidden_act="gelu")),
        ("rotary", LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})),
        ("hidden size 48", LlamaConfig(hidden_size=48, num_attention_heads=1, head_dim=32)),
        ("intermediate size 32", LlamaConfig(intermediate_size=32)),
        ("head size 16", LlamaConfig(head_dim=16)),
        ("vocabulary 100", LlamaConfig(vocab_size=100)),
        ("quantised already", LlamaConfig(quantization_config={"quant_method": "fp8"})),
    ],
)
def test_what_the_kernel_cannot_run_is_said(message: str, config: object) -> None:
    with pytest.raises(Unsupported, match=message):
        Architecture.of(config)


def test_a_missing_tensor_is_named() -> None:
    model = fused.model("llama")
    state = model.state_dict()
    del state["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(Unsupported, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        FusedRunner(Architecture.of(model.config), state.get, weights="int4", num_blocks=4, threads=1)


FORKING = """
import gc, os, sys, threading, time
from common.model.batch import Segment
from tests.support import fused
runner = fused.runner_of(fused.model("llama"), threads=3)
before = runner.run([Segment([5, 6, 7], 0, [1], 3)])[0].logits
for collect in (True, False):
    child = os.fork()
    if not child:
        if collect:
            del runner
            gc.collect()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert runner.run([Segment([5, 6, 7], 0, [2], 3)])[0].logits.equal(before)
# One long pass: a thread that is stopped between passes may be inside torch, which does not survive it.
segments = [Segment([5] * 500, 0, list(range(32)), 0)] * 250
threading.Thread(target=runner.run, args=(segments,), daemon=True).start()
time.sleep(0.5)
"""

STARVED = """
import resource
from common.model.linear import Multiplier
from common.model.fused import library
library.load()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), -1))
try:
    Multiplier(400)
except MemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
Multiplier(3)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_fork_ends_without_the_threads_and_a_process_ends_in_the_middle_of_a_pass() -> None:
    done = run(FORKING)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("sh") is None or not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_threads_that_the_system_has_not_are_an_error_and_not_the_end() -> None:
    done = run(STARVED)
    assert (done.returncode, done.stdout) == (0, "no memory for 400 threads\n"), done.stderr
