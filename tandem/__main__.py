"""``tandem serve``: one command for the whole stack."""

from __future__ import annotations

import argparse
import sys

from tandem import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="tandem", description="Speculative decoding as a service.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="run every service here, with the embedded model and Valkey")
    commands.add_parser("prepare", help="convert the model and compile the kernel into the cache, once")
    command = parser.parse_args().command
    sys.exit(serve.serve() if command == "serve" else serve.prepare())


if __name__ == "__main__":
    main()
