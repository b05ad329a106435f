"""Where the API server of Kubernetes is, and how it is asked for EndpointSlices."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client
from kubernetes.aio import config as kubernetes_config
from yaml import YAMLError

from common.errors import ConfigError
from router.discovery.slices import Slice

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_ANSWER_SECONDS = 10.0
"""Longest until an answer begins, and until that to a list ends."""


class Refused(Exception):
    """The API server answered with an error; ``code`` is its HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message}".strip())
        self.code = code


AWAY = (aiohttp.ClientError, kubernetes_config.ConfigException, OSError)
"""It was not reached, the connection broke, or credentials cannot be read; a TimeoutError is an OSError."""
MALFORMED = (ValueError, KeyError)
"""What it sent makes no sense."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change to a slice, or where ``kind`` is BOOKMARK, only a newer ``version`` to resume from."""

    kind: str
    version: str
    slice: Slice


class Cluster:
    """The EndpointSlices of one namespace that a label selector selects."""

    def __init__(self, api: client.DiscoveryV1Api, namespace: str, selector: str) -> None:
        self._api = api
        self._namespace = namespace
        self._selector = selector

    async def list(self) -> tuple[list[Slice], str]:
        """All slices, and the version that a watch goes on from.

        Raises Refused, or one of AWAY or MALFORMED.
        """
        async with self._ask(_ANSWER_SECONDS) as answer:
            return _listed(await answer.json())

    async def watch(self, version: str, seconds: int) -> AsyncGenerator[Event, None]:
        """What changes after ``version``, for so many seconds; raises what ``list`` raises.

        A dead connection, on which not even its end comes, raises soon after that time.
        """
        asking = {"resource_version": version, "watch": True, "allow_watch_bookmarks": True}
        async with self._ask(seconds + _ANSWER_SECONDS, timeout_seconds=seconds, **asking) as answer:
            async for line in answer.content:
                yield _event(json.loads(line))

    @asynccontextmanager
    async def _ask(self, whole_seconds: float, **parameters: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that ends within ``whole_seconds``."""
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer = await self._api.list_namespaced_endpoint_slice_without_preload_content(
                self._namespace,
                label_selector=self._selector,
                _request_timeout=whole_seconds,
                **parameters,
            )
        async with answer:
            if answer.status != HTTPStatus.OK:
                raise Refused(answer.status, (await answer.text())[:200])
            yield answer


def _listed(content: Any) -> tuple[list[Slice], str]:
    match content:
        case {"items": list(slices), "metadata": {"resourceVersion": str(version)}}:
            return slices, version
    raise ValueError("the answer is no list of slices")


def _event(content: Any) -> Event:
    """Raises Refused for an event that says what went wrong."""
    match content:
        case {"type": "ERROR", "object": {"code": int(code), **status}}:
            raise Refused(code, str(status.get("message", "")))
        case {"type": str(kind), "object": {"metadata": {"resourceVersion": str(version)}} as changed}:
            return Event(kind, version, changed)
    raise ValueError("a line is no event of a watch")


@asynccontextmanager
async def connect(kubeconfig: str, namespace: str, selector: str) -> AsyncIterator[Cluster]:
    """The cluster of a kubeconfig file; without one that which this is a pod of, else the user's.

    Args:
        kubeconfig: the file, or empty.
        namespace: where empty, that of the pod or of the file's context.

    Raises:
        ConfigError: when there is no such cluster.
    """
    settings = client.Configuration()
    try:
        if not kubeconfig and os.environ.get("KUBERNETES_SERVICE_HOST"):
            kubernetes_config.load_incluster_config(settings)
            namespace = namespace or _pod_namespace()
        else:
            loader = await kubernetes_config.load_kube_config(
                kubeconfig or None, client_configuration=settings, persist_config=False
            )
            namespace = namespace or loader.current_context["context"].get("namespace", "default")
        api = client.ApiClient(settings)
    except (kubernetes_config.ConfigException, YAMLError, OSError) as error:
        raise ConfigError(f"no cluster to ask: {error}", field="kubernetes_config") from error
    async with api:
        yield Cluster(client.DiscoveryV1Api(api), namespace, selector)


def _pod_namespace() -> str:
    return _POD_NAMESPACE.read_text().strip()
