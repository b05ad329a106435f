"""The life of the verify service: load, warm up, serve, drain."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable

from common import lifecycle, logging, rpc
from common.grammar import Compiler
from common.model import loading, store
from common.model.block_manager import BLOCK_SIZE, BlockManager
from common.model.loading import Loaded, Wanted
from common.model.runner import model_thread
from common.model.tokenizer import Tokenizer
from protos.tandem.v1 import verify_pb2, verify_pb2_grpc
from verify_service import metrics
from verify_service.acceptance import embedding
from verify_service.admission import Admission
from verify_service.config import Config
from verify_service.constraints import Constraints
from verify_service.drafts.ahead import AheadPolicy
from verify_service.drafts.control import registry
from verify_service.drafts.control.curve import Shape
from verify_service.drafts.hub import DraftHub
from verify_service.drafts.limits import Hidden, Limits
from verify_service.drafts.link import DraftLink, Link
from verify_service.drafts.lookahead.link import ENDPOINT
from verify_service.drafts.lookahead.lookahead import Lookahead
from verify_service.engine import Engine, Waits
from verify_service.feedback.reporter import Reporter
from verify_service.scheduler import Scheduler
from verify_service.servicer import VerifyServicer
from verify_service.switches import Switched
from verify_service.tags import TagReader
from verify_service.validators.vetting import Vetting
from verify_service.warmup import warm_up

log = logging.get("verify")


async def serve(config: Config, make_link: Callable[[str], Link] = DraftLink) -> None:
    """Run until told to stop; not ready before the model is loaded and warm.

    Args:
        make_link: to the draft replica at an address.
    """
    stop = lifecycle.stop_event()
    lifecycle.serve_metrics(config.metrics_port)
    metrics.start_at_zero(config.max_block_size)
    server = rpc.Server(f"{config.host}:{config.port}")
    thread = model_thread()
    target = await asyncio.get_running_loop().run_in_executor(thread, _load, config)
    tags, switched = TagReader(config.redis_url), Switched(config.redis_url)
    reporter = Reporter(config.redis_url, target.admission.tokenizer.decode, embedding.load)
    drafts = DraftHub(
        target.admission.tokenizer.fingerprint,
        target.admission.vocabulary_size,
        config.draft_wait_ms / 1000,
        target.lookahead.make_link if target.lookahead else make_link,
        policy=target.policy,
        limits=Limits(config.min_batch, config.max_batch, config.min_confidence),
        hidden=target.hidden,
        ahead=AheadPolicy(config.ahead),
        switch=switched.state,
    )
    engine = Engine(
        target.admission,
        target.scheduler,
        target.runner,
        thread,
        drafts=drafts,
        tags=tags,
        vetting=target.vetting,
        lookahead=target.lookahead,
        waits=Waits(config.tag_wait_ms / 1000, config.settle_wait_ms / 1000),
        reporter=reporter,
    )
    servicer = VerifyServicer(engine, target.admission, target.status)
    verify_pb2_grpc.add_VerifyServiceServicer_to_server(servicer, server.grpc)
    await server.start()
    async with asyncio.TaskGroup() as group:  # an engine that ends by a fault ends the service
        background = [group.create_task(part.run()) for part in (engine, tags, reporter, switched)]
        servicer.ready = True
        await server.set_ready(True)
        log.info("ready", port=server.port, model=config.served_name, device=target.status.device)
        await stop.wait()
        log.info("draining")
        servicer.ready = False
        await server.drain(config.drain_seconds)
        for task in background:
            task.cancel()
    await target.vetting.close()
    if target.constraints:
        await target.constraints.close()
    await drafts.shutdown()
    await tags.close()
    await reporter.close()
    await switched.close()


class _Target:
    """The loaded model with what serves it."""

    def __init__(
        self, config: Config, loaded: Loaded, tokenizer: Tokenizer, num_blocks: int, costs: Shape
    ) -> None:
        # A sequence alone in the pool must fit with its largest block of guesses.
        fits = num_blocks * BLOCK_SIZE - config.max_block_size
        context_length = min(int(loaded.config.max_position_embeddings), fits)
        self.runner = loaded.runner
        hidden_size = int(loaded.config.hidden_size) if config.hidden_layers else 0
        self.hidden = Hidden(config.hidden_layers, hidden_size)
        self.policy = registry.make(config.controller, costs)
        self.scheduler = Scheduler(
            BlockManager(num_blocks),
            config.max_running,
            config.max_waiting,
            config.max_batch_tokens,
            config.prefix_caching,
        )
        window, ngram = config.lookahead_window, config.lookahead_ngram
        self.lookahead = Lookahead(window, ngram) if window else None
        self.constraints = _constraints(config, int(loaded.config.vocab_size), tokenizer)
        self.vetting = Vetting(config.validate_ms / 1000, config.grammar_seconds)
        self.admission = Admission(
            tokenizer=tokenizer,
            model_name=config.served_name,
            system_fingerprint=_system_fingerprint(loaded, tokenizer),
            vocabulary_size=int(loaded.config.vocab_size),
            context_length=context_length,
            eos_token_ids=tokenizer.eos_token_ids,
            block_size=config.block_size,
            max_block_size=config.max_block_size,
            tree_width=config.tree_width,
            max_tree_width=config.max_tree_width,
            fact_checks=bool(config.redis_url),
            constraints=self.constraints,
            vetting=self.vetting,
            own_draft=ENDPOINT if self.lookahead else None,
            policy=config.default_policy,
            sampled=config.feedback_sampled if config.redis_url else 0.0,
        )
        self.status = verify_pb2.VerifyStatus(
            model=config.served_name,
            fingerprint=tokenizer.fingerprint,
            vocabulary_size=self.admission.vocabulary_size,
            context_length=context_length,
            max_running=config.max_running,
            kv_blocks_total=num_blocks,
            device=loaded.device,
            weights=loaded.weights,
            backend=loaded.backend,
        )


def _load(config: Config) -> _Target:
    num_blocks = BlockManager.blocks_for(config.kv_tokens)
    wanted = Wanted(
        config.model,
        num_blocks,
        threads=config.threads or os.cpu_count() or 1,
        weights=config.weights,
        backend=config.backend,
        device=config.device,
        hidden_layers=config.hidden_layers,
    )
    loaded = loading.load(wanted)
    tokenizer = Tokenizer(store.load_tokenizer(loaded.folder), store.eos_token_ids(loaded.folder))
    most_rows = min(config.max_batch_tokens, (num_blocks - 1) * BLOCK_SIZE)
    costs = warm_up(loaded.runner, min(most_rows, config.max_running * (1 + config.block_size)))
    return _Target(config, loaded, tokenizer, num_blocks, costs)


def _constraints(config: Config, vocabulary_size: int, tokenizer: Tokenizer) -> Constraints | None:
    """None for a tokenizer whose tokens are no bytes that a grammar could be matched with."""
    if tokenizer.bytewise is None:
        return None
    return Constraints(Compiler(tokenizer.bytewise, vocabulary_size), config.grammar_seconds)


def _system_fingerprint(loaded: Loaded, tokenizer: Tokenizer) -> str:
    """Changes when the target, its weights' type, the tokenizer or the numerics do."""
    identity = f"{loaded.numerics}{tokenizer.fingerprint}"
    return f"tandem-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
