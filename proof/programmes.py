"""The programmes by name: what ``python -m proof`` lists, and starts."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

PROGRAMMES: Final = {
    "sim": ("proof.sim.simulate", "simulated networks of queue managers, one for each seed"),
}
"""Module and help of each. ``main`` of the module takes arguments, and returns the exit code."""


def list_programmes() -> str:
    """Every name with what it does, a line each."""
    wide = max(map(len, PROGRAMMES))
    return "".join(f"{name:{wide}}  {what}\n" for name, (_, what) in PROGRAMMES.items())


def run_programme(arguments: list[str]) -> int:
    """Run the programme that the first argument names, with the others; without any, list them.

    Returns:
        The exit code: that of the programme, or 2 if there is none of that name.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"python -m proof NAME [arguments]\n\n{list_programmes()}")
        return 0
    name, *more = arguments
    if name not in PROGRAMMES:
        sys.stderr.write(f"no programme is called {name!r}; these are:\n\n{list_programmes()}")
        return 2
    module, _ = PROGRAMMES[name]
    return int(import_module(module).main(more))
