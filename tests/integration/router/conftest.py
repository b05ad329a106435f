"""A local API server of Kubernetes, and what leads a router there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from router.config import RouterConfig
from tests.support.kubernetes_api import KubernetesApi


@pytest.fixture
async def api() -> AsyncIterator[KubernetesApi]:
    async with KubernetesApi() as server:
        yield server


@pytest.fixture
def config(api: KubernetesApi, tmp_path: Path) -> RouterConfig:
    """What leads a router to the API server."""
    return RouterConfig(
        discovery="kubernetes",
        kubernetes_config=api.kubeconfig(tmp_path),
        host="127.0.0.1",
        port=0,
        poll_seconds=0.05,
        drain_seconds=0.1,
    )
