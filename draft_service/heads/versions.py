"""Numbered versions of a head in a folder, one of them current: whoever trains writes, who drafts reads."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import ConfigError
from draft_service.heads import files
from draft_service.heads.files import Head, HeadFile

_CURRENT = "current"
_HEAD = "head.safetensors"
_CARD = "card.json"
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Version:
    """
    Attributes:
        number: from 1 on.
        parent: the number of the version it began as; 0: none.
        card: how it came to be, as JSON has it.
    """

    number: int
    parent: int
    card: Mapping[str, Any]


class Versions:
    """A folder for each version, made under another name first, and a file that names the current one.

    Both appear whole or not at all; so a reader never sees half a version, nor a pointer to none. Of old
    versions the latest are kept.
    """

    def __init__(self, folder: Path, kept: int = _KEPT) -> None:
        self._folder = folder
        self._kept = kept

    def current(self) -> int:
        """Its number; 0: there is none. Raises ConfigError for a pointer that is not a number."""
        try:
            text = (self._folder / _CURRENT).read_text()
        except FileNotFoundError:
            return 0
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._folder}: {error}", field="versions") from None
        if not (text.strip().isascii() and text.strip().isdecimal()):
            raise ConfigError(f"{self._folder / _CURRENT} names no version", field="versions")
        return int(text)

    def path(self, number: int) -> Path:
        """The file of a version's head, there or not."""
        return self._named(number) / _HEAD

    def version(self, number: int) -> Version:
        """Raises ConfigError where there is none."""
        try:
            card = json.loads((self._named(number) / _CARD).read_text())
            return Version(number, int(card["parent"]), card)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"there is no version {number}: {error}", field="versions") from None

    def numbers(self) -> list[int]:
        """Of all versions, ascending."""
        return sorted(int(path.name) for path in self._folder.glob("[0-9]*") if path.name.isdecimal())

    def publish(self, head: Head, file: HeadFile, card: Mapping[str, Any]) -> Version:
        """A new version that becomes the current one. Its name is that of ``file`` with its number.

        Args:
            card: numbers and names; the parent is added.
        """
        number, parent = max(self.numbers(), default=0) + 1, self.current()
        whole = {"number": number, "parent": parent, **card}
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".making-") as scratch:
            made = Path(scratch) / "version"
            files.save(made / _HEAD, head, _named(file, number if parent else 0))
            (made / _CARD).write_text(json.dumps(whole, indent=1) + "\n")
            made.rename(self._named(number))
        self._point_to(number)
        self._forget_oldest(keep={number, parent})
        return Version(number, parent, whole)

    def roll_back(self) -> Version:
        """Make the current version's parent current. Raises ConfigError where there is none."""
        parent = self.version(self.current()).parent
        if not parent or not self.path(parent).is_file():
            raise ConfigError(f"there is nothing before version {self.current()}", field="versions")
        self._point_to(parent)
        return self.version(parent)

    def _named(self, number: int) -> Path:
        return self._folder / f"{number:06}"

    def _point_to(self, number: int) -> None:
        descriptor, made = tempfile.mkstemp(dir=self._folder, prefix=".current-")
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
        Path(made).chmod(0o644)
        Path(made).replace(self._folder / _CURRENT)

    def _forget_oldest(self, keep: set[int]) -> None:
        for number in self.numbers()[: -self._kept]:
            if number not in keep:
                shutil.rmtree(self._named(number))


def _named(file: HeadFile, number: int) -> HeadFile:
    """``number``: 0: the version that others follow; its name stays as it is."""
    name, _, last = file.version.rpartition(".")
    root = name if name and last.isdecimal() else file.version
    version = f"{root}.{number}" if number else file.version
    return HeadFile(file.shape, file.weights, file.vocabulary, version, file.fingerprint)
