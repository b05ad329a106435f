"""Samples on the stream: what arrives is what was sent, and nothing else is in them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from common.errors import InvalidRequest
from common.samples import LIKELIEST, LONGEST, Sample, decode_sample, encode_sample


def sample(tokens: int = 5, prompt: int = 2) -> Sample:
    random = np.random.default_rng(1)
    answered = tokens - prompt
    return Sample(
        prompt_class="code",
        fingerprint="f",
        greedy=True,
        token_ids=tuple(range(tokens)),
        prompt_length=prompt,
        likeliest=random.integers(0, 70_000, (answered, LIKELIEST)).astype(np.uint32),
        probabilities=random.random((answered, LIKELIEST)).astype(np.float16),
    )


def changed(**fields: Any) -> dict[bytes, bytes]:
    payload = json.loads(encode_sample(sample())[b"payload"])
    return {b"payload": json.dumps(payload | fields).encode()}


def test_a_sample_arrives_as_it_was() -> None:
    sent = sample()
    got = decode_sample(encode_sample(sent))
    assert (got.prompt_class, got.fingerprint, got.greedy) == ("code", "f", True)
    assert (got.token_ids, got.prompt_length) == (sent.token_ids, 2)
    assert np.array_equal(got.likeliest, sent.likeliest)
    assert np.array_equal(got.probabilities, sent.probabilities)


def test_it_has_token_ids_and_probabilities_and_nothing_that_says_whose_they_are() -> None:
    payload = json.loads(encode_sample(sample())[b"payload"])
    assert set(payload) == {
        "prompt_class",
        "fingerprint",
        "greedy",
        "token_ids",
        "prompt_length",
        "likeliest",
        "probabilities",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {b"payload": b"{}"},
        {},
        changed(session_id="s"),
        changed(token_ids=[1, 2]),
        changed(token_ids=[1, -2, 3, 4, 5]),
        changed(token_ids=[0] * (LONGEST + 1)),
        changed(prompt_length=0),
        changed(likeliest="AAAA"),
        changed(probabilities="!"),
        changed(probabilities=encode_sample(sample(8, 5))[b"payload"].decode()[:64]),
    ],
)
def test_what_is_no_sample_is_refused(fields: dict[bytes, bytes]) -> None:
    with pytest.raises(InvalidRequest, match="not a"):
        decode_sample(fields)


def test_probabilities_that_are_none_are_refused() -> None:
    for wrong in (np.nan, 1.5, -0.5):
        sent = sample()
        sent.probabilities[1, 3] = wrong
        with pytest.raises(InvalidRequest, match="probabilities"):
            decode_sample(encode_sample(sent))
