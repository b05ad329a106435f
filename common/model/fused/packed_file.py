"""Packed weights on disk, so that only the first start of a model packs them."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from common import logging
from common.model.cache import cache_dir
from common.model.fused import layout
from common.model.fused.layout import Format, Packed

_MOST_FILES = 8

log = logging.get("model")


class PackedFile:
    """Packed linears by name: read where a file has them, else made and remembered."""

    def __init__(self, file: Any = None) -> None:
        self._file = file
        self._shapes: dict[str, list[int]] = json.loads(file.metadata()["linears"]) if file else {}
        self.made: dict[str, Packed] = {}

    def get(self, name: str, make: Callable[[], Packed]) -> Packed:
        if name not in self._shapes:
            self.made[name] = make()
            return self.made[name]
        kind, inputs, outputs = self._shapes[name]
        scales = f"{name}.scales"
        return Packed(
            Format(kind),
            inputs,
            outputs,
            self._file.get_tensor(name),
            self._file.get_tensor(scales) if scales in self._file.keys() else None,  # noqa: SIM118
        )


@contextmanager
def packed_file(folder: str, weights: str, layers: int) -> Iterator[PackedFile]:
    """Of one model in one format; what had to be made is written at the end."""
    path = cache_dir() / "packed" / f"{_identity(folder, weights, layers)}.safetensors"
    with ExitStack() as opened:
        packed = PackedFile(_open(path, opened))
        yield packed
    if not packed.made:
        with suppress(OSError):
            path.touch()  # the latest used is the last to be dropped
        return
    try:
        _write(packed.made, path)
        _drop_oldest(path.parent)
    except OSError as error:
        log.warning("the packed weights could not be kept", path=str(path), error=str(error))


def _drop_oldest(folder: Path) -> None:
    """Keep a few; one that is being read stays readable."""
    newest_first = sorted(folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_MOST_FILES:]:
        path.unlink(missing_ok=True)


def _open(path: Path, opened: ExitStack) -> Any:
    """None where there is no such file, or not a whole one."""
    try:
        return opened.enter_context(safe_open(path, "pt"))
    except (OSError, SafetensorError):
        return None


def _identity(folder: str, weights: str, layers: int) -> str:
    """Changes with the files, the recipe and the code that packs."""
    content = hashlib.sha256(f"{Path(folder).resolve()} {weights} {layers}".encode())
    for path in sorted(Path(folder).glob("*.safetensors")):
        status = path.stat()
        content.update(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode())
    for source in (layout.__file__, str(Path(__file__).with_name("weights.py"))):
        content.update(Path(source).read_bytes())
    return content.hexdigest()[:32]


def _write(made: dict[str, Packed], path: Path) -> None:
    """In one step, so that nobody reads half a file."""
    tensors: dict[str, Tensor] = {name: packed.data for name, packed in made.items()}
    tensors |= {f"{name}.scales": p.scales for name, p in made.items() if p.scales is not None}
    shapes = {name: [int(p.format), p.inputs, p.outputs] for name, p in made.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".packing-") as scratch:
        written = Path(scratch) / path.name
        save_file(tensors, written, metadata={"linears": json.dumps(shapes)})
        written.replace(path)
