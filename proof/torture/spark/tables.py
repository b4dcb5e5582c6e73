"""``make spark-tables``: do the Java connectors of Delta and Iceberg read and write our tables?

Lands messages in a table of each kind, lets the connector read it and add rows in a Spark of its
own, lands more, and lets the connector read it again. That Spark is 4.1, the newest that both
connectors are made for, and runs in an environment of its own under ``build``: 450 MB from the
package index, and 60 MB of connectors from Maven. What cannot be had is said, and not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path
from typing import Any

import onceq
from proof import ROOT
from proof.nodes import Node, free_port

PLACE = ROOT / "build" / "spark-tables"
SPARK = "4.1.4"
MAVEN = "https://repo1.maven.org/maven2/"
JARS = {
    "delta": (
        "io/delta/delta-spark_4.1_2.13/4.4.0/delta-spark_4.1_2.13-4.4.0.jar",
        "io/delta/delta-storage/4.4.0/delta-storage-4.4.0.jar",
    ),
    "iceberg": (
        "org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/"
        "iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
    ),
}
DOWNLOAD_S_MAX = 300.0
QUEUE = r"private$\rows"
SCHEMA = (
    "id BIGINT NOT NULL, price DOUBLE, at TIMESTAMP, day DATE, sum DECIMAL(10, 2), "
    "lines ARRAY<STRUCT<n: INT>>"
)
ROW = {"price": 0.5, "at": "2026-11-24T01:02:03Z", "day": "2026-01-02", "sum": 1.25,
       "lines": [{"n": 3}]}  # fmt: skip
ROWS = 100
FOREIGN = 10
"""Rows that the connector adds."""
SUMS = "sum(price) price, sum(sum) sum, sum(lines[0].n) lines, min(at) at, min(day) day"
JAVA = """
import json, sys
from pyspark.sql import SparkSession
kind, to, jars, more = sys.argv[1:]
name = to.rpartition("/")[2]
session = SparkSession.builder.master("local[1]").config("spark.jars", jars)
for key, value in {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "1g",
    **({"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
       if kind == "delta" else
       {"spark.sql.catalog.here": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.here.type": "hadoop",
        "spark.sql.catalog.here.warehouse": to.rpartition("/")[0]}),
}.items():
    session = session.config(key, value)
spark = session.getOrCreate()
def table():
    return spark.read.format("delta").load(to) if kind == "delta" else spark.table("here." + name)
rows = table()
found = rows.selectExpr("count(*) count", "count(DISTINCT messageId) messages", SUMS).first()
if int(more):
    fresh = rows.limit(int(more)).selectExpr(
        *("encode(left(uuid(), 20), 'UTF-8') messageId" if c == "messageId" else "`" + c + "`"
          for c in rows.columns))
    if kind == "delta":
        fresh.write.format("delta").mode("append").save(to)
    else:
        fresh.writeTo("here." + name).append()
print("found " + json.dumps(found.asDict(), default=str))
spark.stop()
"""


def prepared(kind: str) -> str:
    """Spark and the connector, if they are not there; why not, if they cannot be had."""
    try:
        python = PLACE / "bin" / "python"
        if not python.exists():
            venv.EnvBuilder(with_pip=True, symlinks=True).create(PLACE)
        subprocess.run(
            [python, "-m", "pip", "-q", "install", f"pyspark=={SPARK}"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        return f"pyspark {SPARK} cannot be installed: {(error.stderr or '').strip()[-200:]}"
    for jar in JARS[kind]:
        path = _jar(jar)
        if path.exists():
            continue
        try:
            with urllib.request.urlopen(MAVEN + jar, timeout=DOWNLOAD_S_MAX) as answer:
                fresh = path.with_suffix(".new")
                fresh.write_bytes(answer.read())
                fresh.replace(path)
        except OSError as error:
            return f"{MAVEN}{jar} cannot be had: {error}"
    return ""


def _jar(jar: str) -> Path:
    return PLACE / jar.rpartition("/")[2]


def by_java(kind: str, to: Path, more: int) -> dict[str, Any]:
    """Return what the connector reads; then let it add ``more`` rows."""
    from onceq.spark.runtime import ensure_java

    script = PLACE / "by_java.py"
    script.write_text(JAVA.replace("SUMS", ", ".join(f'"{part}"' for part in SUMS.split(", "))))
    jars = ",".join(str(_jar(jar)) for jar in JARS[kind])
    done = subprocess.run(
        [PLACE / "bin" / "python", script, kind, to, jars, str(more)],
        capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "JAVA_HOME": ensure_java(), "SPARK_LOCAL_IP": "127.0.0.1",
             "PYSPARK_PYTHON": str(PLACE / "bin" / "python")},
    )  # fmt: skip
    for line in done.stdout.splitlines():
        if line.startswith("found "):
            return dict(json.loads(line.removeprefix("found ")))
    raise RuntimeError(f"the connector of {kind} failed: {done.stderr[-2000:]}")


def landed(manager: str, kind: str, to: Path, first: int) -> dict[str, Any]:
    """Land rows, some of which are bad; what the command says."""
    bodies = [json.dumps({"id": first + n, **ROW}) for n in range(ROWS)]
    with onceq.connect(manager) as qm:
        qm.send_many(QUEUE, [*bodies, "bad"], transactional=True)
    (to.parent / "schema.sql").write_text(SCHEMA)
    done = subprocess.run(
        [sys.executable, "-c", "from onceq.cli.main import main; main()", "--qm", manager, "spark",
         "land", QUEUE, "--to", kind, str(to), "--format", "json", "--schema",
         str(to.parent / "schema.sql"), "--until-empty", "--batch", "60", "--by-date", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not done.stdout:
        raise RuntimeError(f"land failed: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def find_faults(kind: str, manager: str, to: Path) -> list[str]:
    """Return the faults of a kind of table."""
    landed(manager, kind, to, 0)
    wrong = _compared(by_java(kind, to, FOREIGN), ROWS)
    proof = landed(manager, kind, to, ROWS)["proof"]
    if (proof["rows"], proof["twice"]) != (2 * ROWS + FOREIGN, 0):
        wrong.append(f"we read {proof['rows']} rows after the connector had added {FOREIGN}")
    return wrong + _compared(by_java(kind, to, 0), 2 * ROWS + FOREIGN)


def _compared(found: dict[str, Any], rows: int) -> list[str]:
    wanted = {
        "count": rows, "messages": rows, "price": rows * 0.5, "sum": f"{rows * 1.25:.2f}",
        "lines": rows * 3, "at": "2026-11-24 01:02:03", "day": "2026-01-02",
    }  # fmt: skip
    return [
        f"the connector has {name} {found[name]}, and it is {value}"
        for name, value in wanted.items()
        if found[name] != value
    ]


def main(arguments: list[str]) -> int:
    """The command; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.parse_args(arguments)
    failed = False
    with tempfile.TemporaryDirectory(prefix="onceq-spark-tables-") as name:
        for kind in JARS:
            why = prepared(kind)
            if why:
                print(f"NOT RUN with the connector of {kind}: {why}", file=sys.stderr)
                continue
            folder = Path(name) / kind
            folder.mkdir()
            node = Node(folder, "HUB", free_port(), {})
            node.start()
            try:
                with onceq.connect(str(node.path)) as qm:
                    qm.create_queue(QUEUE, transactional=True)
                wrong = find_faults(kind, str(node.path), folder / "table")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    node.kill()
            for text in wrong:
                print(f"WRONG {kind}: {text}", file=sys.stderr)
            failed |= bool(wrong)
            print(f"{kind}: {'wrong' if wrong else 'read and added to by its Java connector'}")
    return int(failed)
