"""Fits the linear model, and scores prompts by models that have not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold

from router.classifier import HEAD_CHARACTERS, PROMPT_CLASSES, features
from training.router.prompts import Prompt

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Settings:
    """
    Attributes:
        strength: the inverse of the regularisation's weight, C of scikit-learn.
        least_groups: what fewer groups of prompts have is not learnt.
    """

    strength: float
    least_groups: int
    folds: int
    seed: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """``weights``: [features.SIZE, classes]; ``bias``: [classes]."""

    weights: Floats
    bias: Floats

    def scores(self, matrix: csr_matrix) -> Floats:
        """[prompts, classes]."""
        found: Floats = matrix @ self.weights + self.bias
        return found


def matrix_of(prompts: Sequence[Prompt]) -> csr_matrix:
    """One row per prompt, of the features that the router extracts; [prompts, features.SIZE]."""
    rows = [features.extract(prompt.text[:HEAD_CHARACTERS], prompt.characters) for prompt in prompts]
    starts = np.cumsum([0, *(len(row.indices) for row in rows)])
    values = np.concatenate([row.values for row in rows]).astype(np.float64)
    indices = np.concatenate([row.indices for row in rows])
    matrix = csr_matrix((values, indices, starts), (len(rows), features.SIZE))
    matrix.sum_duplicates()
    return matrix


def classes_of(prompts: Sequence[Prompt]) -> Classes:
    return np.array([PROMPT_CLASSES.index(prompt.prompt_class) for prompt in prompts])


def fit(matrix: csr_matrix, prompts: Sequence[Prompt], settings: Settings) -> Fitted:
    """Logistic regression over all classes at once, each class of the same weight.

    Only features that several groups share have weights: one of few templates says nothing of others.

    Raises:
        ValueError: when there is no prompt of a class.
    """
    classes = classes_of(prompts)
    if missing := set(range(len(PROMPT_CLASSES))) - set(classes.tolist()):
        raise ValueError(f"no prompt is {', '.join(PROMPT_CLASSES[each] for each in missing)}")
    kept = np.flatnonzero(groups_with(matrix, prompts) >= settings.least_groups)
    model = LogisticRegression(C=settings.strength, class_weight="balanced", max_iter=2000, tol=1e-4)
    model.fit(matrix[:, kept], classes)
    weights = np.zeros((features.SIZE, len(PROMPT_CLASSES)))
    weights[kept] = model.coef_.T
    return Fitted(weights, model.intercept_)


def groups_with(matrix: csr_matrix, prompts: Sequence[Prompt]) -> Classes:
    """In how many groups of prompts each feature comes up, [features.SIZE]."""
    _, groups = np.unique([prompt.group for prompt in prompts], return_inverse=True)
    membership = csr_matrix((np.ones(len(prompts)), (groups, np.arange(len(prompts)))))
    counts: Classes = np.bincount((membership @ matrix).tocsr().indices, minlength=features.SIZE)
    return counts


def out_of_fold(prompts: Sequence[Prompt], matrix: csr_matrix, settings: Settings) -> Floats:
    """Each prompt's scores by a model that saw no prompt of its group, [prompts, classes].

    Raises:
        ValueError: when there are fewer groups than folds.
    """
    groups = [prompt.group for prompt in prompts]
    folds = StratifiedGroupKFold(settings.folds, shuffle=True, random_state=settings.seed)
    scores = np.zeros((len(prompts), len(PROMPT_CLASSES)))
    for seen, unseen in folds.split(matrix, classes_of(prompts), groups):
        fitted = fit(matrix[seen], [prompts[each] for each in seen], settings)
        scores[unseen] = fitted.scores(matrix[unseen])
    return scores


def temperature_of(scores: Floats, classes: Classes) -> float:
    """What to divide scores by so that the chances of the right classes are the likeliest.

    Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2. Each class counts the same.
    """
    counts = np.bincount(classes, minlength=scores.shape[1])

    def loss(logarithm: float) -> float:
        chances = chances_of(scores, np.exp(logarithm))
        right = chances[np.arange(len(classes)), classes]
        return float(-np.average(np.log(right + 1e-12), weights=1 / counts[classes]))

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def chances_of(scores: Floats, temperature: float) -> Floats:
    """Softmax over the last axis."""
    powers = np.exp((scores - scores.max(1, keepdims=True)) / temperature)
    chances: Floats = powers / powers.sum(1, keepdims=True)
    return chances
