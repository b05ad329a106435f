"""The process that runs validators: one may be slow, hang, leak or crash, and is then killed with it.

Lines of JSON. ``check`` asks whether a validator can be made, and is answered by nothing or what is wrong.
A task asks one validator of one answer and is answered by how many tokens of each path may stay, and how many
seconds the validator took to say so; tasks are answered in order. ``forget`` names validators that nobody
asks any more; it is not answered.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from common.errors import InvalidRequest
from common.types import ValidatorChoice
from verify_service.validators import registry
from verify_service.validators.base import Validator

_MOST_MEMORY_BYTES = 4 << 30
_LONGEST_SECONDS = 30

Message = dict[str, Any]


@dataclass(slots=True)
class _Vetted:
    """One validator of one answer, with the answer's text so far."""

    validator: Validator
    text: str = ""


class Worker:
    def __init__(self) -> None:
        self._vetted: dict[str, _Vetted] = {}

    def answers(self, message: Message) -> Iterator[Message]:
        if "check" in message:
            yield _check(message["check"])
        for key in message.get("forget", ()):
            self._vetted.pop(key, None)
        for task in message.get("tasks", ()):
            yield self._answer(task)

    def _answer(self, task: Message) -> Message:
        """Whatever a validator does wrong is its own affair."""
        signal.alarm(_LONGEST_SECONDS)  # should nobody be there any more to kill it
        try:
            vetted = self._known(task)
            started = time.perf_counter()
            return {"longest": _longest(vetted, task), "seconds": time.perf_counter() - started}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:300]}
        finally:
            signal.alarm(0)

    def _known(self, task: Message) -> _Vetted:
        """With all of the answer's text; made, if need be."""
        if "make" in task:
            name, options = task["make"]
            self._vetted[task["key"]] = _Vetted(registry.make(ValidatorChoice(name, options)))
        vetted = self._vetted[task["key"]]
        vetted.text += task["add"]
        return vetted


def _longest(vetted: _Vetted, task: Message) -> list[int]:
    start = len(vetted.text)
    return [
        int(vetted.validator.longest(vetted.text + drafted, start, [start + end for end in ends]))
        for drafted, ends in task["paths"]
    ]


def _check(choice: tuple[str, dict[str, str]]) -> Message:
    name, options = choice
    try:
        registry.make(ValidatorChoice(name, options))
    except InvalidRequest as error:
        return {"error": error.message, "field": error.field}
    except Exception as error:
        return {"error": f"{registry.FIELD}.{name}: {error}"[:300], "field": f"{registry.FIELD}.{name}"}
    return {}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a validator prints is no answer
    print(json.dumps("ready"), file=answers, flush=True)
    worker = Worker()
    for line in sys.stdin:
        for answer in worker.answers(json.loads(line)):
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
