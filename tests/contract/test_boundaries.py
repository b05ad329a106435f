"""The packages keep to the boundaries that the architecture draws between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.imports import SERVICES, read_tree, violations

ROOT = Path(__file__).parents[2]
SOUND = {
    "common/__init__.py": "",
    "common/errors.py": "import grpc",
    "common/streams.py": "",
    "common/sampling.py": "import torch",
    "common/light.py": "from common import errors",
    "common/heavy.py": "from common import sampling",
    "common/codec/__init__.py": "from common.codec.draft import block",
    "common/codec/draft.py": "from protos.v1 import draft_pb2",
    "protos/__init__.py": "",
    "protos/v1/__init__.py": "",
    "protos/v1/draft_pb2.py": "from google.protobuf import message",
    "gateway/__init__.py": "",
    "gateway/app.py": "import fastapi\nfrom common import codec, light\nfrom gateway import verify_client",
    "gateway/verify_client.py": "from protos.v1 import draft_pb2",
    "router/__init__.py": "",
    "draft_service/__init__.py": "",
    "draft_service/engine.py": "import torch\nimport redis.asyncio as redis\nfrom common import heavy",
    "fact_check_service/__init__.py": "",
    "fact_check_service/worker.py": "from redis import Redis\nfrom common import streams",
    "tests/__init__.py": "",
    "tests/test_all.py": "import gateway.app, draft_service.engine, protos",
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return root


def test_every_module_keeps_to_the_boundaries() -> None:
    assert violations(ROOT) == []


def test_the_modules_of_every_service_are_looked_at() -> None:
    names = [module.package for module in read_tree(ROOT).values()]
    assert {name for name in names if names.count(name) >= 5} >= SERVICES | {"common", "protos", "tests"}


def test_a_tree_that_keeps_to_the_boundaries_has_no_violations(tmp_path: Path) -> None:
    assert violations(write(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("gateway/bad.py", "import draft_service", "imports draft_service, of another package"),
        ("gateway/bad.py", "from draft_service.engine import X", "imports draft_service.engine"),
        ("gateway/bad.py", "from draft_service import engine", "imports draft_service.engine"),
        ("gateway/bad.py", "def f():\n    import router", "bad.py:2: gateway.bad imports router"),
        ("gateway/bad.py", "import tests.test_all", "imports tests.test_all"),
        ("gateway/bad.py", "import importlib\nimportlib.import_module('router')", "imports router"),
        ("gateway/bad.py", "if TYPE_CHECKING:\n    import router", "imports router"),
        ("common/bad.py", "from gateway import app", "common.bad imports gateway.app"),
        ("common/bad.py", "import tests", "common.bad imports tests"),
        ("common/codec/bad.py", "from router import x", "common.codec.bad imports router"),
        ("protos/bad.py", "from common import errors", "protos.bad imports common.errors"),
        ("gateway/bad.py", "import torch", "gateway.bad → torch"),
        ("router/bad.py", "from transformers import AutoConfig", "router.bad → transformers"),
        ("gateway/bad.py", "from common import sampling", "gateway.bad → common.sampling → torch"),
        ("router/bad.py", "from common import heavy", "router.bad → common.heavy → common.sampling → torch"),
        ("fact_check_service/bad.py", "import common.heavy", "common.heavy → common.sampling → torch"),
        ("common/__init__.py", "import torch", "common → torch"),
        ("common/light.py", "from . import sampling", "common.light → common.sampling → torch"),
        ("common/codec/draft.py", "from ..sampling import x", "common.codec.draft → common.sampling → torch"),
        ("gateway/bad.py", "from common import streams", "gateway.bad → common.streams"),
        ("gateway/app.py", "from protos.v1 import draft_pb2", "gateway.app imports protobuf types"),
        (
            "draft_service/engine.py",
            "import protos.v1.draft_pb2",
            "imports protobuf types away from the edge",
        ),
        ("common/errors.py", "from protos.v1 import draft_pb2", "imports protobuf types away from the edge"),
        ("gateway/bad.py", "import redis.asyncio", "gateway.bad imports redis"),
        ("common/bad.py", "from redis import Redis", "common.bad imports redis"),
    ],
)
def test_a_violation_is_noticed_and_said_where(
    tmp_path: Path, file: str, source: str, complaint: str
) -> None:
    found = violations(write(tmp_path, SOUND | {file: source}))
    assert any(complaint in line and str(tmp_path) in line for line in found)


@pytest.mark.parametrize("name", ["server", "servicer", "clients", "link", "verify_client"])
def test_protobuf_types_are_allowed_at_the_edge(tmp_path: Path, name: str) -> None:
    edge = {f"gateway/{name}.py": "from protos.v1 import draft_pb2"}
    assert violations(write(tmp_path, SOUND | edge)) == []
