"""Policies by the names that configuration knows them by."""

from __future__ import annotations

from typing import Literal

from verify_service.drafts.control.base import Policy
from verify_service.drafts.control.curve import Shape
from verify_service.drafts.control.fixed import Fixed
from verify_service.drafts.control.throughput import Throughput
from verify_service.drafts.control.window import Window

PolicyName = Literal["throughput", "window", "fixed"]


def make(name: PolicyName, shape: Shape) -> Policy:
    """``shape``: of the cost of a pass by its rows, as measured at the start."""
    match name:
        case "throughput":
            return Throughput(shape)
        case "window":
            return Window()
        case "fixed":
            return Fixed()
