"""As whom jobs on Spark run, as the command line says it; Spark does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceq.cli.main import run
from onceq.client.credentials import TOKEN, TOKEN_FILE
from onceq.errors import AccessDenied, ConfigurationError
from onceq.model.tokens import SECRET_BYTES, text_of

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

from onceq.spark.connections import CredentialFiles
from onceq.spark.land import replay
from onceq.spark.land import run as landing
from onceq.spark.land.plan import LandPlan

SECRET = text_of("billing", bytes(range(SECRET_BYTES)))
WHERE = ("-q", "tls://hub:1802", "spark")
JOBS = (
    ("land", "q", "--to", "parquet", "table"),
    ("replay", "table", "--to", "q", "--checkpoint", "checkpoint"),
)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[CredentialFiles]:
    """As whom jobs were begun."""
    found: list[CredentialFiles] = []

    def land(master: str, plan: LandPlan, *more: object) -> None:
        found.append(plan.credentials)
        raise ConfigurationError("that is enough")

    def replayed(*more: object, credentials: CredentialFiles, **options: Any) -> None:
        found.append(credentials)
        raise ConfigurationError("that is enough")

    for name in (TOKEN, TOKEN_FILE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(landing, "run", land)
    monkeypatch.setattr(replay, "run", replayed)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.token"
    file.write_text(SECRET)
    file.chmod(0o600)
    return found


@pytest.mark.parametrize("job", JOBS)
def test_a_job_shows_the_token_that_the_command_names(
    begun: list[CredentialFiles], tmp_path: Path, job: tuple[str, ...]
) -> None:
    """Its processes may run in other folders, so the name is a whole path."""
    run(["--token-file", "a.token", *WHERE, *job])
    run([*WHERE, *job])
    assert begun == [CredentialFiles(token=str(tmp_path / "a.token")), CredentialFiles()]


@pytest.mark.parametrize("job", JOBS)
def test_a_file_that_cannot_be_used_is_told_before_spark_starts(
    begun: list[CredentialFiles], tmp_path: Path, capsys: Any, monkeypatch: Any,
    job: tuple[str, ...],
) -> None:  # fmt: skip
    (tmp_path / "a.token").chmod(0o644)
    assert run(["--token-file", "a.token", *WHERE, *job]) == AccessDenied.exit_code
    said = capsys.readouterr().err
    assert f"{tmp_path}/a.token holds a token" in said
    assert "chmod 600" in said
    assert run(["--token-file", "gone", *WHERE, *job]) == ConfigurationError.exit_code
    assert f"{tmp_path}/gone cannot be read" in capsys.readouterr().err
    assert run(["--token-file", SECRET, *WHERE, *job]) == ConfigurationError.exit_code
    assert SECRET not in capsys.readouterr().err
    monkeypatch.setenv(TOKEN_FILE, "gone as well")
    assert run([*WHERE, *job]) == ConfigurationError.exit_code
    assert "gone as well cannot be read" in capsys.readouterr().err
    assert begun == []
