"""JavaScript that still parses."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tree_sitter_javascript
from tree_sitter import Language

from verify_service.validators.syntax import Dialect, Syntax

_DIALECT = Dialect(
    Language(tree_sitter_javascript.language()),
    frozenset({"javascript", "js", "jsx", "mjs", "cjs"}),
    re.compile(r"^(?:async\s+function|class|const|export|function|var)\s", re.MULTILINE),
)


class JavaScript(Syntax):
    """Options: ``whole``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(_DIALECT, options)
