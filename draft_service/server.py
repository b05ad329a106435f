"""The life of a draft service: load the source, serve, drain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig

from common import lifecycle, logging, rpc
from common.grammar import Compiler
from common.model import store
from common.model.runner import model_thread
from common.model.tokenizer import Tokenizer
from draft_service import metrics
from draft_service.config import Config
from draft_service.engine import DraftEngine
from draft_service.heads.versions import Versions
from draft_service.publisher import Publisher
from draft_service.servicer import DraftServicer
from draft_service.sources import registry
from draft_service.sources.base import Source
from draft_service.swapping import Swapper, preparing
from draft_service.vocabulary import Vocabulary
from protos.tandem.v1 import draft_pb2, draft_pb2_grpc

log = logging.get("draft")


@dataclass(frozen=True)
class Drafting:
    """A source at work. ``engine``, ``publisher`` and ``swapper`` are to be run, the second to be closed.

    Attributes:
        swapper: None: the source stays as it is.
        status: what does not change while the source runs.
    """

    engine: DraftEngine
    publisher: Publisher
    status: draft_pb2.DraftStatus
    swapper: Swapper | None = None


async def serve(config: Config) -> None:
    """Run the configured source until told to stop."""
    await serve_source(config, registry.make)


async def serve_source(config: Config, make_source: Callable[[Config, str], Source]) -> None:
    """Run any source until told to stop; it is made from the configuration and the target's folder."""
    stop = lifecycle.stop_event()
    lifecycle.serve_metrics(config.metrics_port)
    metrics.start_at_zero()
    drafting = await load(config, make_source)
    engine, publisher, swapper = drafting.engine, drafting.publisher, drafting.swapper
    if swapper:
        await swapper.poll()
    servicer = DraftServicer(engine, drafting.status)
    server = rpc.Server(f"{config.host}:{config.port}")
    draft_pb2_grpc.add_DraftServiceServicer_to_server(servicer, server.grpc)
    await server.start()
    async with asyncio.TaskGroup() as group:  # an engine that ends by a fault ends the service
        parts = [part for part in (engine, publisher, swapper) if part]
        background = [group.create_task(part.run()) for part in parts]
        servicer.ready = True
        await server.set_ready(True)
        log.info("ready", port=server.port, source=drafting.status.source)
        await stop.wait()
        servicer.ready = False
        await server.set_ready(False)
        await engine.drain(config.drain_seconds)
        await server.drain(grace_seconds=1)
        for task in background:
            task.cancel()
    await publisher.close()


async def load(config: Config, make_source: Callable[[Config, str], Source]) -> Drafting:
    """The source in an engine of its own, with what a session is checked against."""
    thread = model_thread()
    folder = await asyncio.to_thread(store.resolve, config.model)
    source = await asyncio.get_running_loop().run_in_executor(thread, make_source, config, folder)
    tokenizer = Tokenizer(store.load_tokenizer(folder), store.eos_token_ids(folder))
    bytewise = await asyncio.to_thread(lambda: tokenizer.bytewise)
    model_config = AutoConfig.from_pretrained(folder)
    vocabulary = Vocabulary(
        tokenizer.fingerprint, model_config.vocab_size, model_config.max_position_embeddings
    )
    publisher = Publisher(config.redis_url, tokenizer)
    engine = DraftEngine(
        source,
        vocabulary,
        publisher,
        thread,
        max_sessions=config.max_sessions,
        compiler=Compiler(bytewise, vocabulary.size) if bytewise else None,
    )
    status = draft_pb2.DraftStatus(
        source=source.name,
        fingerprint=vocabulary.fingerprint,
        vocabulary_size=vocabulary.size,
        max_sessions=config.max_sessions,
    )
    swapper = None
    if config.versions:
        prepare = preparing(config, folder, source, vocabulary.fingerprint)
        swapper = Swapper(Versions(Path(config.versions)), engine, prepare)
    return Drafting(engine, publisher, status, swapper)
