"""Takes up the current version of a head while drafts go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from common import logging
from common.errors import ConfigError
from draft_service import metrics
from draft_service.config import Config
from draft_service.engine import DraftEngine
from draft_service.heads import files, running
from draft_service.heads.files import HeadFile
from draft_service.heads.versions import Versions
from draft_service.sources.base import Composite, Source
from draft_service.sources.state_reader import StateReader

_POLL_SECONDS = 1.0

log = logging.get("versions")

Swap = Callable[[], None]
"""Puts another head in place, at once; to be called while the source does not propose."""


class Swapper:
    """Looks each second which version is current.

    One that cannot be had, or does not fit, is refused once, and what is running stays.
    """

    def __init__(self, versions: Versions, engine: DraftEngine, prepare: Callable[[HeadFile], Swap]) -> None:
        """``prepare``: does what takes time, off the event loop; raises ConfigError."""
        self._versions = versions
        self._engine = engine
        self._prepare = prepare
        self._seen = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await self.poll()

    async def poll(self) -> None:
        """Take the current version up, if it is not the one that was looked at last."""
        try:
            number = await asyncio.to_thread(self._versions.current)
        except ConfigError as error:
            log.warning("no version can be told", reason=error.message)
            return
        if number and number != self._seen:
            self._seen = number
            await self._take_up(number)

    async def _take_up(self, number: int) -> None:
        try:
            swap = await asyncio.to_thread(self._prepared, number)
        except (ConfigError, MemoryError) as error:
            metrics.HEAD_SWAPS.labels("refused").inc()
            log.warning("a version is refused", number=number, reason=str(error))
            return
        await self._engine.between_rounds(swap)
        metrics.HEAD_SWAPS.labels("taken").inc()
        metrics.HEAD_VERSION.set(number)
        log.info("a version is drafting", number=number, version=self._engine.model_version)

    def _prepared(self, number: int) -> Swap:
        return self._prepare(files.load(self._versions.path(number)))


def preparing(config: Config, folder: str, source: Source, fingerprint: str) -> Callable[[HeadFile], Swap]:
    """What prepares a head for the part of ``source`` that runs one of its kind.

    Raises:
        ConfigError: where none does.
    """
    readers = [part for part in _parts(source) if isinstance(part, StateReader)]
    if not readers:
        raise ConfigError("only the sources eagle and medusa have versions", field="versions")

    def prepare(file: HeadFile) -> Swap:
        reader = next((reader for reader in readers if reader.shape == file.shape), None)
        if reader is None or file.fingerprint != fingerprint:
            raise ConfigError(f"{file.version} is of another shape or for another target", field="versions")
        if not all(bool(weight.isfinite().all()) for weight in file.weights.values()):
            raise ConfigError(f"{file.version} has weights that are no numbers", field="versions")
        return reader.replacement(running.prepared(config, folder, file))

    return prepare


def _parts(source: Source) -> Iterator[Source]:
    """The source and those that it asks."""
    yield source
    if isinstance(source, Composite):
        for inner in source.sources:
            yield from _parts(inner)
