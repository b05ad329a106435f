"""Validators are found by name, those of other packages too, and loaded only when they are asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InvalidRequest
from tests.support.offered import ROOT, offered
from tests.unit.verify.validators.support import made, stands
from verify_service.validators import registry


def test_what_an_installed_package_offers_is_known_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with offered(tmp_path, monkeypatch):
        assert {"javascript", "json", "python", "regex", "shouting"} < set(registry.known())
        assert stands(made("shouting", **{"not": "x"}), "axb") == "a"
    assert "shouting" not in registry.known()


def test_what_is_built_in_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with offered(tmp_path, monkeypatch):
        entries = tmp_path / "offered-1.0.dist-info" / "entry_points.txt"
        entries.write_text(f"[{registry.GROUP}]\njson = tests.support.offered:Every\n")
        assert registry.known()["json"].value.startswith("verify_service.validators.")


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidRequest, match="not among javascript, json, python, regex") as refused:
        registry.check_name("cobol")
    assert refused.value.field == "speculation.validators"


def test_one_validator_does_not_load_the_others_nor_a_model() -> None:
    program = (
        "import sys, verify_service.validators.worker\n"
        "from common.types import ValidatorChoice\n"
        "from verify_service.validators.registry import make\n"
        "make(ValidatorChoice('regex', {'pattern': 'a'}))\n"
        "print(sorted({'torch', 'transformers', 'tree_sitter', 'llguidance'} & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.strip() == "['llguidance']"
