"""Java that starts quickly: with the classes of Spark read and checked before, and small plans.

A session of Spark loads ten thousand classes, which takes half of the time that it takes to start.
Java keeps them in an archive (class data sharing) that a first, small session leaves when it ends.
To compile plans, or the Java code itself to its fastest, takes longer than a few rows give back.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SAY_NOTHING: Final = "-Xlog:disable -Xlog:all=error:stderr"
"""An archive that does not fit is not used; the command that starts Spark does not say so."""
SMALL: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.sql.codegen.wholeStage=false "
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN"
)
OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The variable from which each driver's Java has its options."""
TRAINING_S_MAX: Final = 300
TRAINING: Final = """
import sys
from pathlib import Path
from onceq.spark.runtime import QUICK, quiet_session
place = Path(sys.argv[1])
with quiet_session("local[2]", "classes", QUICK, folder=place) as spark:
    rows = spark.range(0, 4, 1, 2).selectExpr("id", "cast(id as string) body")
    rows.write.parquet(str(place / "rows"))
    (spark.readStream.schema("id bigint, body string").parquet(str(place / "rows"))
     .mapInPandas(lambda frames: frames, "id bigint, body string")
     .writeStream.foreachBatch(lambda frame, batch: frame.orderBy("id").collect())
     .option("checkpointLocation", str(place / "checkpoint"))
     .trigger(availableNow=True).start().awaitTermination())
"""


def start_quickly() -> None:
    """Let each Spark that this process and its children start do so; make the archive before.

    A Java that cannot keep an archive does without.
    """
    from onceq.spark.runtime import ensure_java, slim_spark_home

    home, spark = Path(ensure_java()), Path(slim_spark_home())
    archive = spark / f"classes-{_key(home, spark)}.jsa"
    os.environ[OPTIONS] = SMALL
    if not archive.exists():
        _make(archive)
    if archive.stat().st_size:
        os.environ[OPTIONS] = f"{SMALL} -XX:SharedArchiveFile={archive} {SAY_NOTHING}"


def _key(home: Path, spark: Path) -> str:
    """What an archive depends on, in short."""
    seen = [str(home.resolve())]
    for file in (home / "release", *sorted((spark / "jars").iterdir())):
        if file.exists():
            seen.append(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:12]


def _make(archive: Path) -> None:
    """Write the archive; an empty file if this Java makes none."""
    with tempfile.TemporaryDirectory(prefix="onceq-classes-") as folder:
        made = Path(folder) / "made.jsa"
        options = f"{SMALL} -XX:ArchiveClassesAtExit={made} {SAY_NOTHING}"
        subprocess.run(
            [sys.executable, "-c", TRAINING, folder],
            env={**os.environ, OPTIONS: options}, cwd=ROOT,
            capture_output=True, timeout=TRAINING_S_MAX, check=False,
        )  # fmt: skip
        made.touch()
        fresh = archive.with_name(f"{archive.name}.{os.getpid()}")
        shutil.copyfile(made, fresh)
        fresh.replace(archive)
