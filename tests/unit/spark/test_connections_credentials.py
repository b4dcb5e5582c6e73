"""Who a query is: files that options name, taken to every place where a connection is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from onceq.client.address import ManagerAddress
from onceq.client.credentials import AUTHORITIES, CERTIFICATE, KEY, TOKEN, TOKEN_FILE, Credentials
from onceq.errors import AccessDenied, ConfigurationError, OnceqError, QueueNotFound
from onceq.model.tokens import SECRET_BYTES, text_of
from onceq.spark import connections
from onceq.spark.connections import ConnectionPool, CredentialFiles, Patience
from onceq.spark.land import replay
from onceq.spark.land.plan import LandPlan
from onceq.spark.sink.options import parse_sink
from onceq.spark.source import access
from onceq.spark.source.access import LazyConnection, borrowed
from onceq.spark.source.options import parse
from tests.certificates import Authority
from tests.proofs import token_of

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install onceq[spark]")

SECRET = text_of("billing", bytes(range(SECRET_BYTES)))
OTHER = text_of("other", bytes(SECRET_BYTES))
SAID = {
    "tokenFile": "/etc/a.token", "tlsAuthorities": "/etc/ca.pem",
    "tlsCertificate": "/etc/own.pem", "tlsKey": "/etc/own.key",
}  # fmt: skip
FILES = CredentialFiles("/etc/a.token", "/etc/ca.pem", "/etc/own.pem", "/etc/own.key")
QUERY = {"queueManager": "tls://hub:1802", "queue": r"private$\orders"}
Parsed = Callable[[Mapping[str, str]], Any]
PARSERS: tuple[Parsed, ...] = (
    lambda given: parse(given, stream=True),
    lambda given: parse(given, stream=False),
    lambda given: parse_sink(given, stream=True),
    lambda given: parse_sink(given, stream=False),
)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN, TOKEN_FILE, AUTHORITIES, CERTIFICATE, KEY):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "a.token"
    made.write_text(SECRET + "\n")
    made.chmod(0o600)
    return made


def shown(files: CredentialFiles) -> str:
    return token_of(files.credentials().greeting(ManagerAddress(path="/run/a.sock"), ""))


def travelled(value: Any) -> Any:
    """As Spark takes it to an executor."""
    from pyspark import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(value))


# ---- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parser", PARSERS)
def test_sources_and_sinks_take_names_of_files(parser: Parsed) -> None:
    assert parser(QUERY).credentials == CredentialFiles()
    given = {name.lower(): f" {value} " for name, value in SAID.items()}
    assert parser({**QUERY, **given}).credentials == FILES
    assert FILES.options() == SAID
    assert CredentialFiles(token="t").options() == {"tokenFile": "t"}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("option", SAID)
def test_a_token_in_the_place_of_a_name_is_refused_and_not_repeated(
    parser: Parsed, option: str
) -> None:
    """Also a part of one: whoever has cut it off has shown the most of it."""
    for text in (SECRET, f" {SECRET}\n", SECRET[:-1]):
        with pytest.raises(
            ConfigurationError, match=f"{option} is the name of a file.*revoke"
        ) as e:
            parser({**QUERY, **SAID, option: text})
        assert e.value.text.startswith("[configuration] ")
        assert SECRET[:-8] not in str(e.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tokenFile": ""}, "tokenFile is the name of a file, and is empty"),
        ({"tlsAuthorities": " "}, "tlsAuthorities is the name of a file, and is empty"),
        ({"tlsKey": "k"}, "tlsKey is the private key of the certificate in tlsCertificate"),
        ({"tokenfiles": "t"}, "did you mean tokenFile?"),
    ],
)
def test_names_that_make_no_sense(given: dict[str, str], words: str) -> None:
    for parser in PARSERS:
        with pytest.raises(ConfigurationError) as caught:
            parser({**QUERY, **given})
        assert words in caught.value.text


def test_what_travels_has_names_alone(file: Path) -> None:
    files = CredentialFiles(str(file))
    assert shown(files) == SECRET
    from pyspark import cloudpickle

    travelling = cloudpickle.dumps([files, LazyConnection("here", Patience(), files)])
    assert SECRET.encode() not in travelling
    assert bytes(range(SECRET_BYTES)) not in travelling
    again, connection = cloudpickle.loads(travelling)
    assert (again, connection.credentials) == (files, files)
    assert str(file) in repr(files)
    assert SECRET not in repr(files)


# ---- what is read -------------------------------------------------------------------------------


def test_an_option_goes_before_the_environment_which_says_the_rest(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.token"
    other.write_text(OTHER)
    other.chmod(0o600)
    assert shown(CredentialFiles()) == ""
    monkeypatch.setenv(TOKEN_FILE, str(other))
    assert shown(CredentialFiles()) == OTHER
    assert shown(CredentialFiles(str(file))) == SECRET
    assert shown(CredentialFiles(authorities="ca.pem")) == OTHER
    monkeypatch.setenv(TOKEN, OTHER)
    assert shown(CredentialFiles(str(file))) == SECRET


def test_files_for_tls_are_taken_one_by_one_but_key_and_certificate_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[str, str, str]] = []

    def context(authorities: str, *, certificate: str = "", key: str = "") -> None:
        taken.append((authorities, certificate, key))

    monkeypatch.setattr("onceq.tls.contexts.client_context", context)
    for name, value in ((AUTHORITIES, "their ca"), (CERTIFICATE, "their own"), (KEY, "their key")):
        monkeypatch.setenv(name, value)
    for files in (
        CredentialFiles(), CredentialFiles(authorities="ca"), CredentialFiles(certificate="own"),
        CredentialFiles("", "ca", "own", "key"),
    ):  # fmt: skip
        files.credentials().context()
    assert taken == [
        ("their ca", "their own", "their key"), ("ca", "their own", "their key"),
        ("their ca", "own", ""), ("ca", "own", "key"),
    ]  # fmt: skip


def test_a_file_is_read_anew_for_each_connection(file: Path) -> None:
    files = CredentialFiles(str(file))
    assert shown(files) == SECRET
    file.write_text(OTHER)
    assert shown(files) == OTHER


def test_what_cannot_be_used_is_refused_at_the_start_with_file_and_cure(
    file: Path, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    wrong = tmp_path / "wrong"
    wrong.write_text("no token")
    wrong.chmod(0o600)
    file.chmod(0o644)
    for files, kind, words in (
        (CredentialFiles(gone), ConfigurationError, f"{gone} cannot be read.*onceq token create"),
        (CredentialFiles(str(file)), AccessDenied, f"chmod 600 {file}"),
        (CredentialFiles(str(wrong)), ConfigurationError, f"the token in .*{wrong} is none"),
        (CredentialFiles(authorities=gone), ConfigurationError, f"authorities {gone} cannot"),
        (CredentialFiles(certificate=gone), ConfigurationError, f"certificate {gone} cannot"),
    ):
        with pytest.raises(kind, match=words) as caught:
            files.check("driver of this query")
        assert caught.value.text.startswith(f"[{kind.code}] ")
        assert caught.value.text.endswith("(driver of this query)")
        assert SECRET not in str(caught.value)
    file.chmod(0o600)
    CredentialFiles(str(file)).check("driver of this query")


def test_the_driver_reads_them_before_anything_runs(file: Path) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    from onceq.spark.data_source import OnceqDataSource

    schema = StructType([StructField("body", BinaryType())])
    one = OnceqDataSource({**QUERY, "tokenFile": str(file)})
    for begin in (
        lambda: one.reader(schema),
        lambda: one.streamReader(schema),
        lambda: one.writer(schema, overwrite=False),
        lambda: one.streamWriter(schema, overwrite=False),
    ):
        file.chmod(0o600)
        begin()
        file.chmod(0o644)
        with pytest.raises(AccessDenied, match=r"^\[access-denied\] .*chmod 600"):
            begin()


def test_files_that_can_be_used_are_not_refused(tmp_path: Path) -> None:
    files = Authority().identity(tmp_path, b"A" * 16)
    CredentialFiles("", files.authorities, files.certificate, files.key).check("driver")


def test_files_of_the_environment_for_tls_are_read_where_there_is_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A query at a Unix socket needs none of them."""
    monkeypatch.setenv(AUTHORITIES, "/nowhere")
    CredentialFiles().check("driver")


# ---- where it goes ------------------------------------------------------------------------------


class Met(Exception):
    """As far as a test wants it to go."""


class Doors:
    """Notes as whom connections are made, and makes none."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Credentials]] = []

    def __call__(self, where: str, *, credentials: Credentials, **more: object) -> NoReturn:
        self.seen.append((where, credentials))
        raise QueueNotFound("it is not asked for")

    def tokens(self) -> list[str]:
        """What they would show."""
        there = ManagerAddress(path="/run/a.sock")
        return [token_of(one.greeting(there, "")) for _, one in self.seen]


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch) -> Doors:
    made = Doors()
    for module in (access, connections, replay):
        monkeypatch.setattr(module, "connect_for_job", made)
    monkeypatch.setattr(connections, "POOL", ConnectionPool())
    return made


def refused(work: Callable[[], object]) -> None:
    with pytest.raises(OnceqError):
        work()


def test_every_connection_of_a_source_is_the_querys(file: Path, doors: Doors) -> None:
    """Of the driver for a batch, for a pattern and for a stream, and of a task."""
    from onceq.spark.source.offsets import Range
    from onceq.spark.source.reader import OnceqReader, RangePartition, Rows
    from onceq.spark.source.stream import OnceqStreamReader

    given = {**QUERY, "tokenFile": str(file)}
    pattern = {"queueManager": "h:1", "subscribePattern": "o", "tokenFile": str(file)}
    batch = parse(given, stream=False)
    (target,) = batch.targets
    part = RangePartition([Range(target.key, 0, 1)], {target.manager: ""}, {target.key: target})
    rows = travelled(Rows(batch, ["body"], counted=False, complete=True))
    for work in (
        OnceqReader(batch, ["body"]).partitions,
        OnceqReader(parse(pattern, stream=False), ["body"]).partitions,
        OnceqStreamReader(parse(given, stream=True), ["body"]).initialOffset,
        OnceqStreamReader(parse(pattern, stream=True), ["body"]).initialOffset,
        lambda: list(rows.read(part)),
    ):
        refused(work)
    assert doors.tokens() == [SECRET] * 5


def test_every_connection_of_a_sink_is_the_querys(file: Path, doors: Doors) -> None:
    """Of a task, of the commit, and of the abort, which is silent."""
    from onceq.spark.sink.task import Staged, TaskBatch, stage
    from onceq.spark.sink.writer import OnceqWriter, StagedMessage

    options = parse_sink({**QUERY, "tokenFile": str(file)}, stream=False)
    job = TaskBatch("app", 0, "", 0)
    writer = travelled(OnceqWriter(options, ["body"]))
    told = StagedMessage(job, Staged(((b"g", b"b"),), 1, 0))
    refused(lambda: stage([], ("body",), options, job))
    refused(lambda: writer.commit([told]))
    writer.abort([])
    assert doors.tokens() == [SECRET] * 3


def test_a_landing_and_a_replay_are_whoever_starts_them(
    file: Path, doors: Doors, tmp_path: Path
) -> None:
    from onceq.spark.land import run

    files = CredentialFiles(str(file))
    plan = LandPlan("h:1", "q", tmp_path / "table", credentials=files)
    assert parse(run._options(plan, ""), stream=True).credentials == files
    refused(lambda: run.check_queues(plan))
    wish = replay.ReplayPlan("table", to="q")
    nobody: Any = None
    refused(lambda: replay.Replay(nobody, "h:1", wish, tmp_path, credentials=files))
    refused(
        lambda: replay.run(
            "local", "h:1", wish, tmp_path, pace=replay.ReplayPace(), say=nobody, tell=nobody,
            credentials=files,
        )
    )  # fmt: skip
    assert doors.tokens() == [SECRET] * 3


def test_a_step_of_a_replay_is_written_as_whoever_starts_it(file: Path) -> None:
    """The writer of Spark is stood for by one that notes its options."""
    noted: dict[str, str] = {}

    class Frame:
        def __getattr__(self, name: str) -> Any:
            return self if name in ("write", "read") else lambda *args, **more: self

        def option(self, name: str, value: str) -> Frame:
            noted[name] = value
            return self

        def options(self, **more: str) -> Frame:
            noted.update(more)
            return self

        def save(self) -> NoReturn:
            raise Met

    one: Any = replay.Replay.__new__(replay.Replay)
    one._spark, one._manager, one._credentials = Frame(), "h:1", CredentialFiles(str(file))
    one._plan, one._wish, one._files = {"id": "x"}, replay.ReplayPlan("t", to="q"), [("part", 1)]
    with pytest.raises(Met):
        one._send(replay.ReplayStep(end=1), None, 0.0)
    assert noted["tokenFile"] == str(file)
    assert noted["queue"] == "q"


def test_connections_are_kept_for_those_they_belong_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that shows nothing must not get one that was made with a token, nor the reverse."""
    made: list[str] = []

    class Connection:
        def __init__(self, where: str, **more: object) -> None:
            made.append(where)

        def close(self) -> None:
            pass

    kept = ConnectionPool()
    monkeypatch.setattr(connections, "POOL", kept)
    monkeypatch.setattr(connections, "connect_for_job", Connection)
    mine, yours, patience = CredentialFiles("mine"), CredentialFiles("yours"), Patience()
    found = []
    for files in (mine, yours, mine, CredentialFiles()):
        with (
            connections.connection("h", credentials=files) as writing,
            borrowed("h", patience, files) as reading,
        ):
            found.append((writing, reading))
            assert reading.credentials == files
    assert found[0] == found[2]
    assert len({id(one) for pair in found for one in pair}) == 6
    assert len(made) == 3
    kept.close()
