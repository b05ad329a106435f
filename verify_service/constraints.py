"""From a request's constraint to a matcher, without ever holding up the event loop or the model."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from common import logging
from common.constraint import LARGEST_CONSTRAINT_BYTES, Constraint
from common.errors import InvalidRequest, Overloaded, Unavailable
from common.grammar import Compiler, Matcher

_MOST_CHECKED = 256
_MOST_WAITING = 32
_START_SECONDS = 30.0
_LONGEST_LINE = 16 * LARGEST_CONSTRAINT_BYTES  # JSON may write a byte in six

log = logging.get("constraints")


class GrammarChecker:
    """``grammar_check`` in a process of its own, killed when it takes longer than ``seconds`` or too much
    memory: a short schema can keep any grammar library busy for ever."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def lower(self, constraint: Constraint) -> str:
        """The constraint in llguidance's form.

        Raises:
            InvalidRequest: when it is no grammar, or one that takes too long.
            Overloaded: when too many wait already.
        """
        if self._waiting >= _MOST_WAITING:
            raise Overloaded("too many grammars are being checked; try again later")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._ask(constraint)
        finally:
            self._waiting -= 1

    async def _ask(self, constraint: Constraint) -> str:
        process = await self._running()
        assert process.stdin
        assert process.stdout
        line = json.dumps([constraint.kind.value, constraint.text, constraint.field])
        process.stdin.write(line.encode() + b"\n")
        try:
            async with asyncio.timeout(self._seconds):
                answer = await process.stdout.readline()
        except TimeoutError:
            answer = b""
        except asyncio.CancelledError:  # its answer would be taken for that of the next
            await self.close()
            raise
        if not answer:
            await self.close()
            log.warning("a grammar took too long or too much memory", field=constraint.field)
            message = f"{constraint.field} takes too long to compile"
            raise InvalidRequest(message, field=constraint.field)
        checked = json.loads(answer)
        if "error" in checked:
            raise InvalidRequest(checked["error"], field=constraint.field)
        return str(checked["grammar"])

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "verify_service.grammar_check"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LONGEST_LINE,
                start_new_session=True,  # a Ctrl-C is for the service to handle
            )
            assert self._process.stdout
            try:
                async with asyncio.timeout(_START_SECONDS):
                    ready = await self._process.stdout.readline()
            except (TimeoutError, asyncio.CancelledError):
                await self.close()
                raise
            if not ready:
                await self.close()
                raise Unavailable("grammars cannot be checked")
        return self._process

    async def close(self) -> None:
        """Kill the process; the next grammar starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        assert process.stdin
        process.stdin.close()
        await process.wait()


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
