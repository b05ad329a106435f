"""The committed stubs are what the compiler makes of the protos."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOS = Path("protos/tandem/v1")
STUBS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def stubs(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for pattern in STUBS for path in (root / PROTOS).glob(pattern)}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """As ``protos/generate.sh`` makes them, but elsewhere."""
    out = tmp_path_factory.mktemp("stubs")
    outputs = [f"--python_out={out}", f"--grpc_python_out={out}"]
    outputs += [f"--mypy_out=quiet:{out}", f"--mypy_grpc_out=quiet:{out}"]
    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / PROTOS).glob("*.proto"))
    plugins = Path(sys.executable).parent
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *outputs, *sources],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{plugins}{os.pathsep}{os.environ['PATH']}"},
        check=True,
    )
    return stubs(out)


def test_every_proto_has_its_stubs_and_every_stub_its_proto(generated: dict[str, str]) -> None:
    assert sorted(stubs(ROOT)) == sorted(generated)


def test_the_committed_stubs_are_what_the_protos_say(generated: dict[str, str]) -> None:
    committed = stubs(ROOT)
    stale = [name for name, text in generated.items() if committed.get(name) != text]
    assert not stale, f"run protos/generate.sh: {', '.join(sorted(stale))} differ"
