from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from fact_check_service import ending
from fact_check_service.checks.base import Context, Finding

PATIENCE_SECONDS = 10.0


class Silent:
    """A check that finds nothing and holds nothing open."""

    name = "silent"

    async def judge(self, context: Context) -> Sequence[Finding]:
        return ()


class Open(Silent):
    """One that is closed when asked to."""

    name = "open"
    closed = False

    async def close(self) -> None:
        self.closed = True


class Failing(Silent):
    name = "failing"

    async def close(self) -> None:
        raise OSError("the other side is gone")


class FailingAtOnce(Silent):
    """One whose ``close`` fails before there is anything to await."""

    name = "failing at once"

    def close(self) -> None:
        raise RuntimeError("closed already")


class Deaf(Silent):
    """One whose ``close`` goes on, whatever is cancelled, until it is released."""

    name = "deaf"

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def close(self) -> None:
        await deaf(self.released)


async def deaf(released: asyncio.Event) -> None:
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(ending, "CANCEL_SECONDS", 0.05)


async def test_every_check_is_closed_whatever_becomes_of_the_others() -> None:
    first, stuck, last = Open(), Deaf(), Open()
    checks = [first, Silent(), Failing(), FailingAtOnce(), stuck, last]
    try:
        await asyncio.wait_for(ending.close_checks(checks), PATIENCE_SECONDS)
    finally:
        stuck.released.set()
    assert first.closed
    assert last.closed


async def test_a_task_that_ends_by_itself_is_not_cancelled() -> None:
    task = asyncio.create_task(asyncio.sleep(0, "done"))
    await ending.end("sleeping", task, PATIENCE_SECONDS)
    assert task.result() == "done"


async def test_a_task_that_takes_too_long_is_cancelled() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await ending.end("waiting", task, 0.01)
    assert task.cancelled()


async def test_a_task_that_ignores_its_cancellation_is_left_behind() -> None:
    released = asyncio.Event()
    task = asyncio.create_task(deaf(released))
    try:
        await asyncio.wait_for(ending.end("not listening", task, 0.01), PATIENCE_SECONDS)
        assert not task.done()
    finally:
        released.set()
