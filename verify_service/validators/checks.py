"""Whether the validators that a request names can be made, before they are."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from common.errors import InvalidRequest
from common.types import ValidatorChoice
from verify_service.line_process import LineProcess, Questions
from verify_service.validators import registry
from verify_service.validators.client import LONGEST_LINE, MODULE

_MOST_CHECKED = 256

Key = tuple[str, tuple[tuple[str, str], ...]]


def key_of(choice: ValidatorChoice) -> Key:
    return choice.name, tuple(sorted(choice.options.items()))


class Checks:
    """Makes validators in a process that may be killed, and remembers the latest, the refused ones too."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: the longest that one may take to be made."""
        self._questions = Questions(LineProcess(MODULE, LONGEST_LINE), seconds)
        self._checked: OrderedDict[Key, InvalidRequest | None] = OrderedDict()
        self._pending: dict[Key, asyncio.Task[InvalidRequest | None]] = {}

    async def check(self, choice: ValidatorChoice) -> None:
        """
        Raises:
            InvalidRequest: naming the validator or the option that is wrong.
            Overloaded: when too many wait to be checked.
        """
        registry.check_name(choice.name)
        key = key_of(choice)
        if key in self._checked:
            self._checked.move_to_end(key)
            wrong = self._checked[key]
        else:  # one check for all that ask the same, which goes on when one of them leaves
            wrong = await asyncio.shield(self._checking(key))
        if wrong:
            raise wrong

    def _checking(self, key: Key) -> asyncio.Task[InvalidRequest | None]:
        if key not in self._pending:
            self._pending[key] = asyncio.create_task(self._check(key))
            self._pending[key].add_done_callback(lambda _: self._pending.pop(key))
        return self._pending[key]

    async def _check(self, key: Key) -> InvalidRequest | None:
        name, options = key
        answer = await self._questions.ask({"check": [name, dict(options)]})
        wrong = None
        if answer is None:
            field = f"{registry.FIELD}.{name}"
            wrong = InvalidRequest(f"{field} takes too long to make", field=field)
        elif "error" in answer:
            wrong = InvalidRequest(answer["error"], field=answer["field"])
        self._checked[key] = wrong
        if len(self._checked) > _MOST_CHECKED:
            self._checked.popitem(last=False)
        return wrong

    async def close(self) -> None:
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self._questions.close()
