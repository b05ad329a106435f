"""Python that still parses."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tree_sitter_python
from tree_sitter import Language

from verify_service.validators.syntax import Dialect, Syntax

_DIALECT = Dialect(
    Language(tree_sitter_python.language()),
    frozenset({"python", "py", "python3"}),
    re.compile(r"^(?:async\s|class\s|def\s|import\s|@)", re.MULTILINE),
)


class Python(Syntax):
    """Options: ``whole``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(_DIALECT, options)
