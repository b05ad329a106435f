"""The process that looks at what clients write before anything else does: it may be killed at any time.

Lines of JSON, one answer for each request: a constraint's kind, text and field in; in llguidance's form, or
what is wrong with it, out.
"""

from __future__ import annotations

import json
import resource
import sys

from common.constraint import Constraint, ConstraintKind
from common.errors import InvalidRequest
from common.grammar import lower

_MOST_MEMORY_BYTES = 2 << 30


def answer(line: str) -> dict[str, str]:
    kind, text, field = json.loads(line)
    try:
        return {"grammar": lower(Constraint(ConstraintKind(kind), text, field))}
    except InvalidRequest as error:
        return {"error": error.message}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line)), flush=True)


if __name__ == "__main__":
    main()
