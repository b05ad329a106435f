"""Who imports whom, read from the source, and the rules of the architecture about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SERVICES = frozenset({"gateway", "router", "verify_service", "draft_service", "fact_check_service"})
SHARED = frozenset({"common", "protos"})
MODEL_LIBRARIES = frozenset({"torch", "transformers", "tokenizers", "safetensors"})
# What a service must not load, not even through what it imports.
OUT_OF_REACH: Mapping[str, frozenset[str]] = {
    "gateway": MODEL_LIBRARIES | {"redis", "common.streams"},
    "router": MODEL_LIBRARIES,
    "fact_check_service": MODEL_LIBRARIES,
}
SPEAK_REDIS = frozenset({"router", "draft_service", "verify_service", "fact_check_service"})
# The edge of a service, where protobuf types may be.
EDGES = frozenset({"server", "servicer", "clients", "link"})
CODEC = "common.codec"


@dataclass(frozen=True)
class Import:
    """``target``: a module of the tree where the name is one, else the dotted name as written."""

    target: str
    line: int


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    imports: tuple[Import, ...]

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def at_an_edge(self) -> bool:
        last = self.name.rpartition(".")[2]
        return last in EDGES or last.endswith("_client") or within(self.name, CODEC)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def read_tree(root: Path) -> dict[str, Module]:
    """Every module of every package directly in ``root``, by its dotted name."""
    packages = [folder.parent for folder in root.glob("*/__init__.py")]
    paths = {_name(root, path): path for package in packages for path in package.rglob("*.py")}
    return {name: Module(name, path, tuple(_imports(name, path, paths))) for name, path in paths.items()}


def _name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    """Wherever they stand: at the top, in a function, for type checkers only, or by name at run time."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import():
                yield from (Import(alias.name, node.lineno) for alias in node.names)
            case ast.ImportFrom():
                base = _base(name, path, node)
                for alias in node.names:
                    deeper = f"{base}.{alias.name}"
                    yield Import(deeper if deeper in known else base, node.lineno)
            case ast.Call(func=function, args=[ast.Constant(value=str(target)), *_]):
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if called in {"import_module", "__import__"}:
                    yield Import(target, node.lineno)


def _base(name: str, path: Path, node: ast.ImportFrom) -> str:
    """The module that ``from … import`` names, dots resolved."""
    if not node.level:
        return node.module or ""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, node.module] if node.module else above)


def violations(root: Path) -> list[str]:
    """Each as ``file:line: what is wrong``; none when the tree keeps to the rules."""
    tree = read_tree(root)
    found = [complaint for module in tree.values() for complaint in _direct(module, tree)]
    found += [complaint for service in OUT_OF_REACH for complaint in _reached(service, tree)]
    return sorted(f"{complaint}" for complaint in found)


def _direct(module: Module, tree: Mapping[str, Module]) -> Iterator[str]:
    local = {other.package for other in tree.values()}
    for imported in module.imports:
        package = imported.target.partition(".")[0]
        place = f"{module.path}:{imported.line}: {module.name}"
        if package in local and not _may_import(module.package, package):
            yield f"{place} imports {imported.target}, of another package"
        if package == "protos" and module.package in {*SERVICES, "common"} and not module.at_an_edge:
            yield f"{place} imports protobuf types away from the edge"
        if package == "redis" and module.package in {*SERVICES, "common"} - SPEAK_REDIS:
            yield f"{place} imports redis"


def _may_import(importer: str, package: str) -> bool:
    if importer == package:
        return True
    if importer in SERVICES:
        return package in SHARED
    if importer == "common":
        return package == "protos"
    return importer != "protos" and (importer == "tests" or package != "tests")


def _reached(service: str, tree: Mapping[str, Module]) -> Iterator[str]:
    """Complaints about what loading all of a service would load, with the chain of imports."""
    chains: dict[str, tuple[str, ...]] = {name: (name,) for name in tree if within(name, service)}
    queue = list(chains)
    while queue:
        name = queue.pop()
        for imported in tree[name].imports:
            for target in _loaded(imported.target):
                chain = (*chains[name], target)
                if any(within(target, forbidden) for forbidden in OUT_OF_REACH[service]):
                    yield f"{tree[name].path}:{imported.line}: {' → '.join(chain)}"
                elif target in tree and target not in chains:
                    chains[target] = chain
                    queue.append(target)


def _loaded(target: str) -> Iterator[str]:
    """A module and the packages around it, which are loaded with it."""
    parts = target.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))
