"""The router's admin API: switches, the autopilot, and what was learned. On a port of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from common.errors import InvalidRequest, TandemError
from common.switches import EVERY_CLASS, State
from router.autopilot.pair import Pair
from router.classifier import PROMPT_CLASSES
from router.learning.bandit import Bandit
from router.pilot import Pilot

Json = dict[str, Any]


class SwitchBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    state: State


class PairBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt_class: str
    pool: str


def create_app(pilot: Pilot, bandit: Bandit) -> FastAPI:
    app = FastAPI(title="Tandem router", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/switches")
    async def switches() -> Json:
        """By class; ``all`` is for every one."""
        known = pilot.steering.switches
        return {name: known.get(name, State.ON).value for name in (EVERY_CLASS, *PROMPT_CLASSES)}

    @app.put("/switches/{name}")
    async def switch(name: str, body: SwitchBody) -> Json:
        if name not in (EVERY_CLASS, *PROMPT_CLASSES):
            known = ", ".join((EVERY_CLASS, *PROMPT_CLASSES))
            raise InvalidRequest(f"no class {name[:64]!r}; known are {known}", field="name")
        await pilot.switch(name, body.state)
        return await switches()

    @app.get("/autopilot")
    async def autopilot() -> Json:
        pairs = pilot.autopilot.pairs
        return {
            "leads": pilot.leads,
            "pairs": [_pair(pilot, *key, pair) for key, pair in sorted(pairs.items())],
            "actions": [asdict(action) for action in pilot.autopilot.actions],
        }

    @app.post("/autopilot/release")
    async def release(body: PairBody) -> Json:
        """Undo what is in force for a class and a pool."""
        action = await pilot.release(body.prompt_class, body.pool)
        return {"released": action is not None}

    @app.get("/learned")
    async def learned() -> Json:
        """Tokens per second of verify time, by class and pool."""
        values = sorted(bandit.values().items())
        return {
            "tokens_per_second": [
                {"prompt_class": prompt_class, "pool": pool, "value": value}
                for (prompt_class, pool), value in values
            ]
        }

    @app.exception_handler(TandemError)
    async def refused(request: Request, error: TandemError) -> JSONResponse:
        return JSONResponse(error.to_openai(), error.http_status)

    return app


def _pair(pilot: Pilot, prompt_class: str, pool: str, pair: Pair) -> Json:
    window = pair.window
    return {
        "prompt_class": prompt_class,
        "pool": pool,
        "resting": pair.rest.reason if pair.rest else None,
        "largest_block": pair.largest_block or None,
        "answers": len(window),
        "acceptance": window.acceptance,
        "truncation": window.truncation,
        "consistency": window.consistency,
        "perplexity": window.perplexity,
        "tokens_per_second": window.rate,
        "beside_plain": pilot.autopilot.compared(prompt_class, pool),
    }
