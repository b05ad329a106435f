"""The router's Redis: switches, what the autopilot has decided, and who of the routers decides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis.asyncio as redis
from redis.exceptions import RedisError

from common import streams, switches
from common.errors import Unavailable
from common.switches import State

AUTOPILOT = "tandem:autopilot"
LEADER = "tandem:autopilot:leader"
RETRAIN = "tandem:retrain"
RETRAIN_CAP = 1000
LEADER_SECONDS = 5
_STATE = "state"

_RENEW = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""


def connect(url: str) -> Any:
    """Protocol 2 answers XREAD with a list of streams whatever the server's version."""
    return redis.Redis.from_url(url, protocol=2, socket_connect_timeout=1, socket_timeout=2)


@dataclass(frozen=True, slots=True)
class Store:
    """Every method raises Unavailable where Redis does not answer within two seconds."""

    client: Any

    async def switches(self) -> Mapping[bytes, bytes]:
        with _reaching():
            fields: Mapping[bytes, bytes] = await self.client.hgetall(switches.KEY)
            return fields

    async def set_switch(self, name: str, state: State) -> None:
        with _reaching():
            await self.client.hset(switches.KEY, name, state.value)

    async def restore_switches(self, known: Mapping[str, State]) -> None:
        """After Redis lost them; what somebody has set meanwhile stays."""
        with _reaching():
            for name, state in known.items():
                await self.client.hsetnx(switches.KEY, name, state.value)

    async def autopilot(self) -> dict[str, Any]:
        """What was saved last; empty: nothing, or nothing that can be read."""
        with _reaching():
            saved = await self.client.hget(AUTOPILOT, _STATE)
        try:
            read = json.loads(saved or b"{}")
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}

    async def save_autopilot(self, state: Mapping[str, Any]) -> None:
        with _reaching():
            await self.client.hset(AUTOPILOT, _STATE, json.dumps(state))

    async def lead(self, name: str) -> bool:
        """Become, or stay, the router that decides; for ``LEADER_SECONDS``."""
        with _reaching():
            return bool(await self.client.eval(_RENEW, 1, LEADER, name, LEADER_SECONDS * 1000))

    async def ask_for_training(self, prompt_class: str, pool: str, reason: str) -> None:
        with _reaching():
            fields = {"prompt_class": prompt_class, "pool": pool, "reason": reason}
            await self.client.xadd(RETRAIN, fields, maxlen=RETRAIN_CAP, approximate=True)

    async def history(self, count: int) -> list[Any]:
        """The last entries of the feedback stream, oldest first."""
        with _reaching():
            newest: list[Any] = await self.client.xrevrange(streams.FEEDBACK, count=count)
        return newest[::-1]

    async def feedback_after(self, last_id: Any, block_ms: int, count: int) -> list[Any]:
        with _reaching():
            answer = await self.client.xread({streams.FEEDBACK: last_id}, count=count, block=block_ms)
        return list(answer[0][1]) if answer else []

    async def close(self) -> None:
        await self.client.aclose()


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        raise Unavailable(f"Redis cannot be reached: {error}") from error
