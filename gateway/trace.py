"""The draft trace as JSON: a step for every delta that carries one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from common.trace import TraceGuess, TraceStep
from common.types import Delta, Provenance

Json = dict[str, Any]

_DIGITS = 4  # significant ones, of a probability
_MICROSECONDS = 6


def step_object(delta: Delta, step: TraceStep, choice: int) -> Json:
    """``step``: that of ``delta``, whose tokens it shows with those of the draft."""
    tokens = zip(delta.token_ids, step.texts, delta.provenance, step.p, strict=True)
    return {
        "choice": choice,
        "first_token": step.first_token,
        "tokens": [_token(*token) for token in tokens],
        "guesses": [_guess(guess) for guess in step.guesses],
        "model_version": step.model_version,
        "ahead": step.ahead,
        "flags": [asdict(flag) for flag in step.flags],
        "seconds": {name: round(value, _MICROSECONDS) for name, value in asdict(step.times).items()},
        "batch": step.batch,
        "rows": step.rows,
    }


def _token(token_id: int, text: bytes, provenance: Provenance, p: float) -> Json:
    return {
        "token_id": token_id,
        "text": text.decode(errors="replace"),
        "origin": provenance.origin.value,
        "source": provenance.source,
        "p": _rounded(p),
    }


def _guess(guess: TraceGuess) -> Json:
    """What is not known is left out."""
    numbers = {"q": guess.q, "p": guess.p, "confidence": guess.confidence}
    return {
        "token_id": guess.token_id,
        "text": guess.text.decode(errors="replace"),
        "parent": guess.parent,
        "source": guess.source,
        "fate": guess.fate.value,
        **{name: _rounded(value) for name, value in numbers.items() if value is not None},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
