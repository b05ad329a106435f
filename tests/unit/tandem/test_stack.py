"""The processes of a stack find each other, and supervisord is told how to run them."""

from __future__ import annotations

import configparser
import json
import shlex
from pathlib import Path

import pytest

from common.config import load
from draft_service.config import Config as DraftConfig
from fact_check_service.config import Config as FactCheckConfig
from gateway.config import Config as GatewayConfig
from router.config import RouterConfig
from tandem.local import free_ports
from tandem.stack import Draft, Process, Stack
from verify_service.config import Config as VerifyConfig


def named(stack: Stack, name: str) -> Process:
    return next(process for process in stack.processes() if process.name == name)


def test_every_service_accepts_the_variables_it_is_given() -> None:
    stack = Stack(drafts={"ngram": Draft(), "self": Draft({"TANDEM_DRAFT_SOURCE": "self"})})
    gateway = load(GatewayConfig, "gateway", named(stack, "gateway").environment)
    router = load(RouterConfig, "router", named(stack, "router").environment)
    verify = load(VerifyConfig, "verify", named(stack, "verify").environment)
    ngram = load(DraftConfig, "draft", named(stack, "draft-ngram").environment)
    own = load(DraftConfig, "draft", named(stack, "draft-self").environment)
    facts = load(FactCheckConfig, "fact_check", named(stack, "fact-check").environment)
    assert gateway.router_address.endswith(f":{router.port}")
    assert router.verify == (f"127.0.0.1:{verify.port}",)
    assert router.drafts == {"ngram": (f"127.0.0.1:{ngram.port}",), "self": (f"127.0.0.1:{own.port}",)}
    assert (ngram.source, own.source) == ("ngram", "self")
    assert verify.redis_url == ngram.redis_url == facts.redis_url == stack.redis_url


def test_a_draft_may_be_reached_by_another_address_than_it_listens_on() -> None:
    stack = Stack(drafts={"near": Draft(), "far": Draft(reached_at="127.0.0.1:7")})
    router = load(RouterConfig, "router", named(stack, "router").environment)
    assert router.drafts == {"near": ("127.0.0.1:50053",), "far": ("127.0.0.1:7",)}
    assert load(DraftConfig, "draft", named(stack, "draft-far").environment).port == 50054


def test_another_module_may_serve_the_target() -> None:
    assert named(Stack(verify_module="other.verify"), "verify").command[-2:] == ("-m", "other.verify")


def test_what_the_callers_environment_says_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_VERIFY_REDIS_URL", "redis://elsewhere:6379/0")
    assert named(Stack(), "verify").environment["TANDEM_VERIFY_REDIS_URL"] == "redis://elsewhere:6379/0"


def test_the_draft_and_the_gateway_follow_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_VERIFY_MODEL", "/models/tiny")
    assert named(Stack(), "draft-ngram").environment["TANDEM_DRAFT_MODEL"] == "/models/tiny"
    gateway = load(GatewayConfig, "gateway", named(Stack(), "gateway").environment)
    assert gateway.models == ("tiny",)


def test_what_serves_clients_starts_last_and_stops_first() -> None:
    order = [process.name for process in sorted(Stack().processes(), key=lambda process: process.priority)]
    assert order == ["valkey", "fact-check", "draft-ngram", "verify", "router", "gateway"]


def test_the_supervisor_config_carries_awkward_values_unharmed(tmp_path: Path) -> None:
    stack = Stack(environment={"TANDEM_NOTE": 'a %(b)s "quoted" value'})
    parser = configparser.RawConfigParser()
    parser.read(stack.write_supervisor_config(tmp_path, tmp_path))
    command = shlex.split(parser["program:router"]["command"].replace("%%", "%"))
    assert command[0] == "/usr/bin/env"
    assert 'TANDEM_NOTE=a %(b)s "quoted" value' in command
    pools = next(part for part in command if part.startswith("TANDEM_ROUTER_DRAFTS="))
    assert json.loads(pools.partition("=")[2]) == {"ngram": ["127.0.0.1:50053"]}
    assert parser["program:router"]["stdout_logfile"] == str(tmp_path / "router.log")


def test_free_ports_are_all_different() -> None:
    ports = free_ports(draft_pools=2)
    values = [*vars(ports).values(), ports.draft + 1]
    assert len(set(values)) == len(values)
