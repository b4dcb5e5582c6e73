"""The programmes by name: what ``python -m proof`` lists, and starts."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

PROGRAMMES: Final = {
    "all": ("proof.everything", "every test, and all of each search: for a night"),
    "sim": ("proof.sim.simulate", "simulated networks of queue managers, one for each seed"),
    "crash": ("proof.torture.crash", "crash points times disk images of the store"),
    "power-loss": ("proof.torture.power_loss", "power cuts on a real file system"),
    "kill": ("proof.torture.kill", "two daemons under load, killed at random"),
    "consumer-kill": ("proof.torture.consumer_kill", "consumers of four kinds, killed at random"),
    "backup": ("proof.torture.backup", "two daemons under load, put back to backups at random"),
    "two-phase": ("proof.torture.two_phase", "commits with databases, hit at random points"),
    "hosts": ("proof.torture.hosts.hosts", "what hosts do to programs, at any line of these"),
    "liar": ("proof.torture.liar.liar", "daemons at work among peers that lie"),
    "spark-kill": ("proof.torture.spark.kill", "a Spark query and its daemons, killed at random"),
    "spark-land": ("proof.torture.spark.land", "a landing into tables, killed at random"),
    "spark-tables": ("proof.torture.spark.tables", "landed tables, read by Java connectors"),
    "conformance": ("proof.conformance", "the conformance cases with one thing turned"),
    "planted": ("proof.planted", "planted mistakes, each of which something must find"),
    "bench": ("proof.bench.bench", "throughput and latency beside the disk's own rate"),
    "bench-against": ("proof.bench.against", "the same for this checkout and another in turn"),
    "bench-breadth": ("proof.bench.breadth", "many queues, and many destinations of a send"),
    "bench-depth": ("proof.bench.depth", "rates, memory and pauses by messages that wait"),
    "bench-loss": ("proof.bench.loss", "a link that loses messages, beside a clean one"),
    "bench-pauses": ("proof.bench.pauses", "how long the loop of a daemon stands still"),
    "bench-peers": ("proof.bench.peers.compare", "beside other queues and databases"),
    "bench-spark": ("proof.bench.spark.bench", "rows a second of source, sink and operators"),
    "bench-spark-operators": ("proof.bench.spark.operators", "each operator beside Spark's own"),
    "bench-spark-skew": ("proof.bench.spark.skew", "memory, where one stream has most rows"),
    "bench-spark-source": ("proof.bench.spark.source", "the source beside one in plain Python"),
    "bench-tenants": ("proof.bench.tenants", "one account beside two with very many queues"),
    "bench-tls": ("proof.bench.tls", "two managers with TLS between them, and without"),
    "bench-two-phase": ("proof.bench.two_phase", "commits of a queue together with PostgreSQL"),
    "calls": ("proof.bench.calls", "calls of Python functions for a commit and a message"),
    "make-histories": ("proof.bench.histories", "histories of any size for audits, with faults"),
}
"""Module and help of each. ``main`` of the module takes arguments, and returns the exit code."""


def list_programmes() -> str:
    """Every name with what it does, a line each."""
    wide = max(map(len, PROGRAMMES))
    return "".join(f"{name:{wide}}  {what}\n" for name, (_, what) in PROGRAMMES.items())


def run_programme(arguments: list[str]) -> int:
    """Run the programme that the first argument names, with the others; without any, list them.

    Returns:
        The exit code of the programme, or 2 if there is none of that name.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(f"python -m proof NAME [arguments]\n\n{list_programmes()}")
        return 0
    name, *more = arguments
    if name not in PROGRAMMES:
        sys.stderr.write(f"no programme is called {name!r}; these are:\n\n{list_programmes()}")
        return 2
    sys.argv[0] = f"python -m proof {name}"  # what it calls itself in its help
    module, _ = PROGRAMMES[name]
    return int(import_module(module).main(more))
