"""A setup is named by its sources, and brings along what they need."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from bench.setups import Setup
from common.errors import ConfigError
from draft_service.heads import files
from draft_service.heads.files import HeadFile
from tandem.stack import Draft
from tests.support.heads import VOCABULARY, tiny_head, tiny_shape


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A head that reads two layers, as the caller's environment names it."""
    path, shape = tmp_path / "head.safetensors", tiny_shape("eagle", (1, 2))
    files.save(path, tiny_head(shape), HeadFile(shape, {}, torch.arange(VOCABULARY), "tiny", "tiny"))
    monkeypatch.setenv("TANDEM_DRAFT_HEAD", str(path))
    return path


def test_sources_become_a_pool_whose_name_a_supervisor_can_take() -> None:
    setup = Setup.parse("ngram,suffix")
    assert setup.pools() == {"ngram-suffix": Draft({"TANDEM_DRAFT_SOURCE": "ngram,suffix"})}
    assert setup.pools("127.0.0.1:7")["ngram-suffix"].reached_at == "127.0.0.1:7"
    assert setup.environment() == {}
    assert setup.speculation(6, 2) == {"block_size": 6, "tree_width": 2}


def test_none_has_no_pool_and_asks_for_no_drafts() -> None:
    setup = Setup.parse("none")
    assert (setup.drafts, setup.pools(), setup.environment()) == (False, {}, {})
    assert setup.speculation(6) == {"enabled": False}


@pytest.mark.parametrize(("text", "reason"), [("ngrams", "'ngrams'"), ("", "''"), ("ngram,ngram", "twice")])
def test_what_is_no_source_is_refused(text: str, reason: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=reason):
        Setup.parse(text)


@pytest.mark.usefixtures("head")
def test_the_verify_service_is_told_to_send_the_states_that_a_head_reads() -> None:
    environment = Setup.parse("ngram,eagle").environment()
    assert json.loads(environment["TANDEM_VERIFY_HIDDEN_LAYERS"]) == [1, 2]
    assert Setup.parse("ngram").environment() == {}


@pytest.mark.usefixtures("head")
def test_the_layers_of_the_callers_own_choice_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_VERIFY_HIDDEN_LAYERS", "[0,1,2]")
    assert Setup.parse("eagle").environment() == {}


def test_a_head_that_is_not_there_or_of_another_kind_is_named(
    head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="kind eagle, not medusa"):
        Setup.parse("medusa").environment()
    monkeypatch.setenv("TANDEM_DRAFT_HEAD", f"{head}-gone")
    with pytest.raises(ConfigError, match="holds no head"):
        Setup.parse("eagle").environment()
