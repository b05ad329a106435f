"""A traced answer in a terminal."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.trace import rendering


def guess(text: str, fate: str, parent: int, **numbers: float) -> dict[str, Any]:
    return {"text": text, "fate": fate, "parent": parent, "source": "pool/ngram", **numbers}


def step(first_token: int, tokens: list[tuple[str, str]], *guesses: dict[str, Any]) -> dict[str, Any]:
    return {
        "choice": 0,
        "first_token": first_token,
        "tokens": [
            {"text": text, "origin": origin, "source": "pool/ngram" if origin == "draft" else "", "p": 0.25}
            for text, origin in tokens
        ],
        "guesses": list(guesses),
        "flags": [],
        "seconds": {"started": 0.0125, "wait": 0.001, "model": 0.003, "round_trip": 0.002},
    }


ANSWER = {
    "tandem": {
        "trace": [
            step(0, [("Here", "target")]),
            step(
                1,
                [(" is", "draft"), (" [b]", "corrected")],
                guess(" is", "accepted", -1, p=0.9),
                guess(" not", "rejected", 0, p=0.01),
                guess(" was", "unsure", -1),
            ),
        ],
        "trace_dropped": 2,
    }
}


def shown(answer: dict[str, Any]) -> str:
    out = io.StringIO()
    rendering.show(Console(file=out, width=160), answer)
    return out.getvalue()


def test_the_text_the_guesses_and_what_became_of_them_are_shown() -> None:
    lines = shown(ANSWER).splitlines()
    assert lines[0] == "Here is [b]"
    row = next(line for line in lines if "12.5" in line and "not" in line)
    assert " is 0.90" in row
    assert " not 0.01" in row
    assert "[0→]  was unsure" in row
    assert " [b] 0.25 corrected" in row
    assert "pool/ngram" in lines[-2]
    assert lines[-1] == "2 more steps are not in the trace"


def test_tokens_have_the_colour_of_who_wrote_them() -> None:
    colours = rendering.Colours()
    written = rendering.text(ANSWER["tandem"]["trace"], colours)  # type: ignore[arg-type]
    styles = {written.plain[span.start : span.end]: span.style for span in written.spans}
    assert styles[" is"] == colours.of("pool/ngram")
    assert styles["Here"] == styles[" [b]"] != styles[" is"]


@pytest.mark.parametrize(
    ("saved", "reason"),
    [('{"tandem": {}}', "asked for with a trace"), ("no answer", "Expecting value")],
)
def test_what_is_no_traced_answer_is_said_to_be_none(tmp_path: Path, saved: str, reason: str) -> None:
    file = tmp_path / "answer.json"
    file.write_text(saved)
    ran = subprocess.run(
        [sys.executable, "-m", "bench.trace", "--answer", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert reason in ran.stderr


def test_a_saved_answer_is_read_from_standard_input() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.trace", "--answer", "-"],
        input=json.dumps(ANSWER),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Here is [b]" in ran.stdout
