"""A traced answer as coloured text and a table of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = Mapping[str, Any]

_SOURCES = ("green", "cyan", "magenta", "yellow", "blue", "bright_red")
_TARGET = "bold"
_FATES = {
    "accepted": "",
    "rejected": "strike red",
    "unreached": "dim",
    "unsure": "dim italic",
    "invalid": "strike magenta",
    "vetoed": "strike yellow",
    "unverified": "dim",
}
_NOTED = ("unsure", "invalid", "vetoed", "unverified")  # said in words: colours alone do not tell


class Colours:
    """One for each source, in the order in which they appear."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, source: str) -> str:
        return self._known.setdefault(source, _SOURCES[len(self._known) % len(_SOURCES)])

    def legend(self) -> Text:
        legend = Text("the target's own", style=_TARGET)
        for source, colour in self._known.items():
            legend.append("  ").append(source, style=colour)
        return legend


def show(console: Console, answer: Json) -> None:
    """Raises KeyError for an answer that has no trace."""
    tandem, colours = answer["tandem"], Colours()
    steps = tandem["trace"]
    for choice in sorted({step["choice"] for step in steps}):
        of_choice = [step for step in steps if step["choice"] == choice]
        console.print(text(of_choice, colours))
        console.print(table(of_choice, colours))
    console.print(colours.legend())
    if tandem["trace_dropped"]:
        console.print(f"{tandem['trace_dropped']} more steps are not in the trace")


def text(steps: list[Json], colours: Colours) -> Text:
    """The answer, each token in the colour of who wrote it."""
    written = Text()
    for token in (token for step in steps for token in step["tokens"]):
        drafted = token["origin"] == "draft"
        written.append(token["text"], style=colours.of(token["source"]) if drafted else _TARGET)
    return written


def table(steps: list[Json], colours: Colours) -> Table:
    shown = Table("at", "ms", "waited", "pass", "round trip", "drafted: p of the target", "target's own")
    for step in steps:
        seconds = step["seconds"]
        shown.add_row(
            str(step["first_token"]),
            *(f"{1000 * seconds[name]:.1f}" for name in ("started", "wait", "model", "round_trip")),
            _guesses(step, colours),
            _own(step["tokens"][-1]),
        )
    return shown


def _guesses(step: Json, colours: Colours) -> Text:
    """A guess that does not follow the one before it says which it follows."""
    line = Text()
    for place, guess in enumerate(step["guesses"]):
        fate = guess["fate"]
        if guess["parent"] != place - 1:
            line.append(f"[{guess['parent'] + 1}→] ", style="dim")
        line.append(repr(guess["text"])[1:-1], style=f"{colours.of(guess['source'])} {_FATES[fate]}".strip())
        if "p" in guess:
            line.append(f" {guess['p']:.2f}", style="dim")
        if fate in _NOTED:
            line.append(f" {fate}", style="dim")
        line.append("  ")
    for flag in step["flags"]:
        line.append(f"⚑ {flag['text']}: {flag['evidence']}  ", style="yellow")
    return line


def _own(token: Json) -> Text:
    if token["origin"] == "draft":  # the answer ended on a guess
        return Text("")
    return Text(f"{repr(token['text'])[1:-1]} {token['p']:.2f} {token['origin']}")
