"""What the target thought at every token of the answers, kept on disk: hidden states, likeliest tokens."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from common.model.batch import Runner, Segment
from common.model.block_manager import BlockManager
from draft_service.heads.files import HeadFile
from draft_service.heads.target import TargetParts, load_parts
from training.answers import Answers
from training.stopping import Stopped
from training.target import Target

LIKELIEST = 32
_ROWS_OF_A_PASS = 1024
_ROWS_OF_A_PRODUCT = 64  # their logits stay in the cache
_DONE = "states.json"
_EVERY_PASSES = 16


@dataclass(frozen=True, slots=True)
class States:
    """
    Attributes:
        hidden: uint16 [tokens, layers * hidden], the bits of bfloat16.
        likeliest: uint16 [tokens, k], places in the head's vocabulary.
        probabilities: float16 [tokens, k], of all of the target's vocabulary.
    """

    hidden: NDArray[np.uint16]
    likeliest: NDArray[np.uint16]
    probabilities: NDArray[np.float16]

    def hidden_at(self, where: slice) -> Tensor:
        """bfloat16 [tokens, layers * hidden]."""
        return torch.from_numpy(np.ascontiguousarray(self.hidden[where])).view(torch.bfloat16)


class StateWriter:
    """Makes ``States`` in a folder, row by row; an interrupted one goes on where it was."""

    def __init__(self, folder: Path, answers: Answers, width: int, identity: str) -> None:
        """
        Args:
            width: layers * hidden.
            identity: of all that the states depend on besides the tokens.
        """
        self._folder = folder
        self._answers = answers
        self._width = width
        self._identity = identity

    def write(
        self,
        make_runner: Callable[[], Runner],
        parts: TargetParts,
        full_head: Tensor,
        stop: threading.Event | None = None,
    ) -> States:
        """Run every row that has not been run.

        Args:
            make_runner: called when there is one; gives hidden states, the last ones after the final norm.
            full_head: [vocabulary, hidden], for the probabilities' sum.
            stop: once it is set, no further pass begins.

        Raises:
            Stopped: when it was asked to stop; what there is is kept.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        done = self._rows_done()
        states = self._open("r+" if done else "w+")
        if done == len(self._answers):
            return states
        threads = torch.get_num_threads()
        runner = make_runner()
        torch.set_num_threads(
            threads
        )  # a runner's kernel keeps torch to one, and has nothing to do meanwhile
        with tqdm(total=len(self._answers), initial=done, desc="states", unit="row") as bar:
            for number, rows in enumerate(_batches(self._answers, done)):
                self._run(runner, parts, full_head, states, rows)
                bar.update(len(rows))
                stopped = stop is not None and stop.is_set()
                if stopped or number % _EVERY_PASSES == 0:
                    self._note(states, rows.stop)
                if stopped:
                    raise Stopped(f"the states of {rows.stop} answers are in {self._folder}")
        self._note(states, len(self._answers))
        return states

    def _run(
        self, runner: Runner, parts: TargetParts, full_head: Tensor, states: States, rows: range
    ) -> None:
        segments, block = [], 0
        for row in rows:
            token_ids = self._answers.row(row)
            blocks = range(block, block + BlockManager.blocks_for(len(token_ids)))
            block = blocks.stop
            segments.append(Segment(token_ids, 0, blocks, logits=0, hidden=True))
        outputs = [output.hidden for output in runner.run(segments) if output.hidden is not None]
        hidden = torch.cat(outputs).bfloat16()
        where = slice(int(self._answers.offsets[rows.start]), int(self._answers.offsets[rows.stop]))
        states.hidden[where] = hidden.view(torch.uint16).numpy()
        last = hidden[:, -parts.head.shape[1] :].to(parts.head.dtype)
        likeliest, probabilities = likeliest_tokens(last, parts.head, full_head)
        states.likeliest[where] = likeliest.to(torch.uint16).numpy()
        states.probabilities[where] = probabilities.half().numpy()

    def _open(self, mode: str) -> States:
        count = int(self._answers.offsets[-1])

        def array(name: str, dtype: type[np.generic], width: int) -> NDArray[np.generic]:
            path = self._folder / f"{name}.npy"
            if mode == "r+":
                return np.lib.format.open_memmap(path, mode)
            return np.lib.format.open_memmap(path, mode, dtype, (count, width))

        return States(
            array("hidden", np.uint16, self._width),  # type: ignore[arg-type]
            array("likeliest", np.uint16, LIKELIEST),  # type: ignore[arg-type]
            array("probabilities", np.float16, LIKELIEST),  # type: ignore[arg-type]
        )

    def _digest(self) -> str:
        content = hashlib.sha256(self._answers.tokens.tobytes())
        content.update(f"{self._identity} {self._width} {LIKELIEST}".encode())
        return content.hexdigest()

    def _rows_done(self) -> int:
        noted = self._folder / _DONE
        if not noted.is_file():
            return 0
        found = json.loads(noted.read_text())
        return int(found["rows"]) if found["digest"] == self._digest() else 0

    def _note(self, states: States, rows: int) -> None:
        for array in (states.hidden, states.likeliest, states.probabilities):
            assert isinstance(array, np.memmap)
            array.flush()
        noted = self._folder / f".{_DONE}"
        noted.write_text(json.dumps({"rows": rows, "digest": self._digest()}))
        noted.replace(self._folder / _DONE)


def of_target(
    folder: Path,
    target: Target,
    found: Answers,
    file: HeadFile,
    parts: TargetParts,
    *,
    stop: threading.Event | None = None,
) -> States:
    """What ``file``'s head reads and learns of its target, of these answers; ``stop`` as in ``write``."""
    identity = f"{file.shape.layers} {file.vocabulary.tolist()} {file.fingerprint}"
    writer = StateWriter(folder, found, len(file.shape.layers) * file.shape.hidden, identity)
    full_head = load_parts(target.folder, torch.arange(len(parts.embedding)), parts.head.dtype).head
    return writer.write(
        lambda: target.runner(blocks_needed(found), file.shape.layers), parts, full_head, stop
    )


def blocks_needed(answers: Answers) -> int:
    """KV blocks of the runner that writes states."""
    longest = int(np.diff(answers.offsets).max())
    return BlockManager.blocks_for(_ROWS_OF_A_PASS + longest) + _ROWS_OF_A_PASS


def likeliest_tokens(features: Tensor, head: Tensor, full_head: Tensor) -> tuple[Tensor, Tensor]:
    """The target's likeliest tokens among those a head can guess: places and probabilities, [rows, k].

    The probabilities are those of the whole vocabulary, so they sum to less than 1.
    """
    chunks = features.split(_ROWS_OF_A_PRODUCT)
    total = torch.cat([(rows @ full_head.T).float().logsumexp(-1, keepdim=True) for rows in chunks])
    best = (features @ head.T).float().topk(LIKELIEST)
    return best.indices, (best.values - total).exp()


def _batches(answers: Answers, start: int) -> Iterator[range]:
    """Rows of about ``_ROWS_OF_A_PASS`` tokens together."""
    while start < len(answers):
        most = answers.offsets[start] + _ROWS_OF_A_PASS
        stop = max(int(np.searchsorted(answers.offsets, most, "right")) - 1, start + 1)
        yield range(start, stop)
        start = stop
