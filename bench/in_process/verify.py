"""``python -m bench.in_process.verify``: the verify service with a draft engine inside.

It reads the variables of both services. Whatever address a plan names, the engine inside drafts.
"""

from __future__ import annotations

import asyncio

from bench.in_process.link import InProcessLink
from common.config import load_or_exit
from common.lifecycle import run
from draft_service import server as drafts
from draft_service.config import Config as DraftConfig
from draft_service.sources import registry
from verify_service import server as verify
from verify_service.config import Config as VerifyConfig


async def serve(config: VerifyConfig, draft: DraftConfig) -> None:
    """Run until told to stop."""
    drafting = await drafts.load(draft, registry.make)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(drafting.engine.run())
        await verify.serve(config, lambda address: InProcessLink(drafting.engine))
        work.cancel()


if __name__ == "__main__":
    chosen = load_or_exit(VerifyConfig, "verify")
    run("verify", serve(chosen, load_or_exit(DraftConfig, "draft")), chosen.log_level)
