"""A linear model over the features of a prompt, and the calibrated chances that it gives the classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from router.classifier import features

PROMPT_CLASSES = (
    "short_qa",
    "chat",
    "code",
    "math",
    "summarization",
    "translation",
    "rag",
    "extraction",
)
WEIGHTS = Path(__file__).parent / "weights" / "classes.npz"
NAMED_CLASSES = 3


@dataclass(frozen=True, slots=True)
class Classification:
    """``weights``: the classes that fit best with their chances, the best first, at most 1 together."""

    weights: tuple[tuple[str, float], ...]

    @property
    def prompt_class(self) -> str:
        return self.weights[0][0]


class LinearClassifier:
    """
    Args:
        weights: float [features.SIZE, classes], the classes in the order of PROMPT_CLASSES.
        bias: float [classes].
        temperature: what the scores are divided by to make chances that hold.

    Raises:
        ValueError: when the shapes are not those.
    """

    def __init__(self, weights: NDArray[np.generic], bias: NDArray[np.generic], temperature: float) -> None:
        expected = (features.SIZE, len(PROMPT_CLASSES))
        if weights.shape != expected or bias.shape != expected[1:]:
            raise ValueError(f"weights {weights.shape} and bias {bias.shape} do not fit {expected}")
        self._weights = np.ascontiguousarray(weights, np.float32) / np.float32(temperature)
        self._bias = bias.astype(np.float32) / np.float32(temperature)

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> LinearClassifier:
        """
        Raises:
            OSError, ValueError: when there is no such file, or it holds something else.
        """
        with np.load(path, allow_pickle=False) as file:
            return cls(file["weights"], file["bias"], float(file["temperature"]))

    def __call__(self, head: str, prompt_characters: int) -> Classification:
        """From the head of the last user turn and the length of the whole prompt; of any text."""
        chances = self.chances(head, prompt_characters)
        best = np.argsort(-chances, kind="stable")[:NAMED_CLASSES]
        return Classification(tuple((PROMPT_CLASSES[each], float(chances[each])) for each in best))

    def chances(self, head: str, prompt_characters: int) -> NDArray[np.float32]:
        """Of each class, in the order of PROMPT_CLASSES, [classes]."""
        found = features.extract(head, prompt_characters)
        scores = found.values @ self._weights[found.indices] + self._bias
        powers = np.exp(scores - scores.max())
        chances: NDArray[np.float32] = powers / powers.sum()
        return chances
