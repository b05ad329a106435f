"""What verify replicas publish of sampled answers for whoever trains drafts: ``streams.SAMPLES``.

Token ids and what the target found likeliest, and nothing that says whose answer it was.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, NonNegativeInt, PositiveInt, TypeAdapter

from common import streams
from common.errors import InvalidRequest

LIKELIEST = 8
LONGEST = 1024
"""Most tokens of a sample; of a longer one the first are kept, so that what was before each is known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Attributes:
        prompt_class: what the router took the request for.
        fingerprint: of the target's vocabulary.
        greedy: every token of the answer is what the target found likeliest.
        token_ids: prompt and answer, at most ``LONGEST``.
        prompt_length: where the answer begins.
        likeliest: uint32 [answer tokens, LIKELIEST], the target's likeliest tokens at each, at temperature 1.
        probabilities: float16 [answer tokens, LIKELIEST], of all of the target's vocabulary.
    """

    prompt_class: str
    fingerprint: str
    greedy: bool
    token_ids: tuple[int, ...]
    prompt_length: int
    likeliest: NDArray[np.uint32]
    probabilities: NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class _Record:
    """As in ``Sample``; arrays are in base64, little-endian."""

    __pydantic_config__: ClassVar[ConfigDict] = streams.EXACT

    prompt_class: str
    fingerprint: str
    greedy: bool
    token_ids: tuple[NonNegativeInt, ...]
    prompt_length: PositiveInt
    likeliest: str
    probabilities: str


_RECORD = TypeAdapter(_Record)


def encode_sample(sample: Sample) -> dict[Any, Any]:
    """The fields of a stream entry."""
    record = _Record(
        sample.prompt_class,
        sample.fingerprint,
        sample.greedy,
        sample.token_ids,
        sample.prompt_length,
        _written(sample.likeliest.astype("<u4")),
        _written(sample.probabilities.astype("<f2")),
    )
    return streams.encode(record)


def decode_sample(fields: Mapping[bytes, bytes]) -> Sample:
    """Raises InvalidRequest for an entry that is not a sample."""
    record = streams.decode(_RECORD, fields)
    answered = len(record.token_ids) - record.prompt_length
    if answered <= 0 or len(record.token_ids) > LONGEST:
        raise InvalidRequest("not a sample: no answer, or too long a one", field="token_ids")
    likeliest = _read(record.likeliest, "<u4", answered)
    probabilities = _read(record.probabilities, "<f2", answered)
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise InvalidRequest("not a sample: probabilities beyond 0 and 1", field="probabilities")
    return Sample(
        record.prompt_class,
        record.fingerprint,
        record.greedy,
        record.token_ids,
        record.prompt_length,
        likeliest.astype(np.uint32),
        probabilities.astype(np.float16),
    )


def _written(array: NDArray[np.generic]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _read(text: str, dtype: str, rows: int) -> NDArray[Any]:
    try:
        content = base64.b64decode(text, validate=True)
        return np.frombuffer(content, dtype).reshape(rows, LIKELIEST)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"not a sample: {error}", field="likeliest") from None
