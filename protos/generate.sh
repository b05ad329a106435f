#!/usr/bin/env bash
# Regenerates the committed stubs from protos/tandem/v1/*.proto.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH" python -m grpc_tools.protoc -I . \
    --python_out=. --grpc_python_out=. --mypy_out=quiet:. --mypy_grpc_out=quiet:. \
    protos/tandem/v1/{types,draft,verify,router}.proto
