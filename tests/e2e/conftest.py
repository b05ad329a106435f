"""Real stacks: every service a process, requests over HTTP, the embedded model in float32."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tandem.local import LocalStack
from tandem.stack import Draft
from tests.e2e.client import Client
from tests.e2e.reference import TargetAlone

_ROOT = str(Path(__file__).parents[2])
DRAFTS = {
    "ngram": Draft({"TANDEM_DRAFT_SOURCE": "ngram"}),
    "self": Draft(
        {"TANDEM_DRAFT_SOURCE": "self", "TANDEM_DRAFT_LAYERS": "4", "TANDEM_DRAFT_WEIGHTS": "float32"}
    ),
    "garbage": Draft({"PYTHONPATH": _ROOT}, module="tests.support.garbage_draft"),
}
# Patient with drafts: these tests are about what is said, and want every block to be verified, paying or not.
_ENVIRONMENT = {
    "TANDEM_VERIFY_WEIGHTS": "float32",
    "TANDEM_VERIFY_CONTROLLER": "fixed",
    "TANDEM_VERIFY_BLOCK_SIZE": "4",
    "TANDEM_VERIFY_MIN_CONFIDENCE": "0",
    "TANDEM_VERIFY_DRAFT_WAIT_MS": "5000",
    "TANDEM_VERIFY_TAG_WAIT_MS": "500",
    "TANDEM_VERIFY_SETTLE_WAIT_MS": "2000",
}


def running_stack(kind: str) -> LocalStack:
    return LocalStack({kind: DRAFTS[kind]}, _ENVIRONMENT)


@pytest.fixture(scope="session")
def target() -> TargetAlone:
    return TargetAlone()


@pytest.fixture(scope="package", params=list(DRAFTS))
def stack(request: pytest.FixtureRequest) -> Iterator[LocalStack]:
    """A stack per kind of draft; tests that take it are grouped by it."""
    with running_stack(request.param) as running:
        yield running


@pytest.fixture
def kind(stack: LocalStack) -> str:
    return next(iter(stack.stack.drafts))


@pytest.fixture
async def client(stack: LocalStack) -> AsyncIterator[Client]:
    http = Client(stack.url)
    yield http
    await http.close()
