"""From a request's constraint to a matcher, without ever holding up the event loop or the model."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from common import logging
from common.constraint import LARGEST_CONSTRAINT_BYTES, Constraint
from common.errors import InvalidRequest
from common.grammar import Compiler, Matcher
from verify_service.line_process import LineProcess, Questions

_MOST_CHECKED = 256
_LONGEST_LINE = 16 * LARGEST_CONSTRAINT_BYTES  # JSON may write a byte in six

log = logging.get("constraints")


class GrammarChecker:
    """A process of its own, as a short schema can keep any grammar library busy for ever."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: the longest that one grammar may take."""
        process = LineProcess("verify_service.grammar_check", _LONGEST_LINE)
        self._questions = Questions(process, seconds)

    async def lower(self, constraint: Constraint) -> str:
        """The constraint in llguidance's form.

        Raises:
            InvalidRequest: when it is no grammar, or one that takes too long.
            Overloaded: when too many wait already.
        """
        field = constraint.field
        checked = await self._questions.ask([constraint.kind.value, constraint.text, field])
        if checked is None:
            log.warning("a grammar took too long or too much memory", field=field)
            raise InvalidRequest(f"{field} takes too long to compile", field=field)
        if "error" in checked:
            raise InvalidRequest(checked["error"], field=field)
        return str(checked["grammar"])

    async def close(self) -> None:
        await self._questions.close()


class Constraints:
    """Compiles what clients ask for and remembers the latest, the refused ones too."""

    def __init__(self, compiler: Compiler, seconds: float) -> None:
        """``seconds``: the longest that one grammar may take."""
        self._compiler = compiler
        self._checker = GrammarChecker(seconds)
        self._checked: OrderedDict[Constraint, str | InvalidRequest] = OrderedDict()
        self._pending: dict[Constraint, asyncio.Task[str | InvalidRequest]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    async def matcher(self, constraint: Constraint) -> Matcher:
        """A matcher at the start of an answer.

        Raises:
            InvalidRequest: naming the constraint's field.
            Overloaded: when too many grammars are being checked.
        """
        grammar = self._recall(constraint)
        if grammar is None:  # one check for all that ask the same, which goes on when one of them leaves
            grammar = await asyncio.shield(self._checking(constraint))
        if isinstance(grammar, InvalidRequest):
            raise grammar
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._compiler.matcher, grammar, constraint.field)

    def _recall(self, constraint: Constraint) -> str | InvalidRequest | None:
        if constraint in self._checked:
            self._checked.move_to_end(constraint)
        return self._checked.get(constraint)

    def _checking(self, constraint: Constraint) -> asyncio.Task[str | InvalidRequest]:
        if constraint not in self._pending:
            self._pending[constraint] = asyncio.create_task(self._check(constraint))
            self._pending[constraint].add_done_callback(lambda _: self._pending.pop(constraint))
        return self._pending[constraint]

    async def _check(self, constraint: Constraint) -> str | InvalidRequest:
        checked: str | InvalidRequest
        try:
            checked = await self._checker.lower(constraint)
        except InvalidRequest as error:
            checked = error
        self._checked[constraint] = checked
        if len(self._checked) > _MOST_CHECKED:
            self._checked.popitem(last=False)
        return checked

    async def close(self) -> None:
        pending = list(self._pending.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self._checker.close()
        self._thread.shutdown(wait=False, cancel_futures=True)
