"""Draft records like those of a busy deployment: a tail of prose, and a block that goes on with it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import cast

from redis.asyncio import Redis
from redis.typing import EncodableT, FieldT

from common import streams
from common.streams import DraftRecord

_TAIL_CHARACTERS = 400
_AT_ONCE = 500
_BLOCKS_PER_SESSION = 20

_PLAIN = (
    "The committee will come back to the question when more of the figures are in.",
    "Most of what follows is easier to see with an example in front of you.",
    "She had read the letter twice before she noticed who had signed it.",
    "None of this changes how the service behaves when a replica goes away.",
    "The path along the river is closed, so allow some time for the way round.",
    "What matters here is the order of the steps, not how long each of them takes.",
)
_STATED = (
    "The bridge was opened on 14 March 1997 and carries 42,000 vehicles a day.",
    "Revenue rose by 12.5% to 3.4 billion dollars in the third quarter of 2024.",
    "The trail is 18.6 km long and climbs to 2,140 m above the sea.",
    "The battery of the car holds 75 kWh and weighs about 480 kg.",
)
_BLOCKS = (
    " and that is where the second part begins",
    " because nobody had told them otherwise,",
    " so the next step is to write it all down",
    ". Water boils at 90 °C, as everyone knows",
    ". Water freezes at 0 °C at sea level, and",
    " in 2019 and again on 3 June 2021, when it",
    " of 250 million euros over the next 5 years",
    " which takes the reader back to the first",
)


def records(count: int, seed: int) -> Iterator[DraftRecord]:
    """Half of the blocks state something, and one of eight something wrong."""
    chance = random.Random(seed)
    for number in range(count):
        session, block_id = divmod(number, _BLOCKS_PER_SESSION)
        tail, block = _tail(chance), chance.choice(_BLOCKS)
        yield DraftRecord(
            session_id=f"session-{seed}-{session}",
            block_id=block_id,
            base_length=100 + 8 * block_id,
            text=tail + block,
            block_start=len(tail),
            token_ends=(*range(len(tail) + 5, len(tail) + len(block), 5), len(tail) + len(block)),
            source="ngram",
            created_ms=time.time_ns() // 1_000_000,
        )


def prompt(seed: int) -> str:
    """Some two thousand characters of what the blocks say too."""
    return " ".join(random.Random(seed).choices((*_PLAIN, *_STATED), k=30))


async def append(redis: Redis, count: int, seed: int) -> None:
    """Without a cap: every one of them is to be checked."""
    pipe = redis.pipeline(transaction=False)
    for record in records(count, seed):
        pipe.xadd(streams.DRAFTS, cast(dict[FieldT, EncodableT], streams.encode(record)))
        if len(pipe) == _AT_ONCE:
            await pipe.execute()
    await pipe.execute()


def _tail(chance: random.Random) -> str:
    sentences = chance.choices((*_PLAIN, *_STATED), k=7)
    return " ".join(sentences)[-_TAIL_CHARACTERS:].rstrip(".")
