"""Where things made once are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """``TANDEM_CACHE_DIR``, or the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tandem"
    return Path(os.environ.get("TANDEM_CACHE_DIR", default))
