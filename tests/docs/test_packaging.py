"""The unit for systemd and the files for containers: they fit what the code takes.

There is no systemd and no container here: the tool of systemd checks the unit where it is
installed, and of the container files the form, the addresses and the configuration are checked.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from onceq.cli.console import PORT, TOKEN
from onceq.model.patterns import queue_name
from onceq.model.policy import Policy
from onceq.model.requests import SetRights
from onceq.model.rights import Actor, ActorKind, Right
from onceq.service.config import parse
from onceq.service.daemon import watchdog_s

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
UNIT = PACKAGING / "onceq@.service"
yaml: Any = importlib.import_module("yaml")


def setting(name: str) -> str:
    """Of the unit."""
    (found,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.M)
    return str(found)


def test_the_unit_finds_the_command_in_any_install() -> None:
    assert setting("ExecStart").startswith("/usr/bin/env onceq qm run ")
    assert setting("Environment").startswith("PATH=/opt/onceq/bin:/usr/local/")
    assert setting("EnvironmentFile").startswith("-"), "it need not be there"


def test_the_unit_lets_the_watchdog_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", str(int(setting("WatchdogSec")) * 1_000_000))
    assert watchdog_s() == int(setting("WatchdogSec")) / 2
    assert setting("NotifyAccess") == "main"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    # With a command that is there, and without the account, which need not exist here.
    text = UNIT.read_text().replace("User=onceq\nGroup=onceq\n", "")
    (tmp_path / "onceq@alpha.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "onceq@alpha.service")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "onceq@alpha" in line]
    assert not said, said


EXPOSURE_MAX = 2.0
"""Of 10, as systemd counts what a service could do that it need not."""


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_finds_the_unit_closed(tmp_path: Path) -> None:
    shutil.copy(UNIT, tmp_path / "onceq-alpha.service")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", str(tmp_path / "onceq-alpha.service")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is older than 250")
    (level,) = re.findall(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert float(level) <= EXPOSURE_MAX, done.stdout


def test_the_unit_lets_a_socket_have_its_group_and_tells_accounts_apart() -> None:
    allowed = re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M)
    assert allowed == ["@system-service", "~@privileged", "@chown"], "in this order"
    for taken in ("PrivateUsers", "ProcSubset", "PrivateNetwork", "IPAddressDeny"):
        assert not re.search(rf"^{taken}=", UNIT.read_text(), re.M), taken


ALONE = """
import ctypes, mmap, sys
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
    sys.exit(77)
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
except OSError:
    pass
else:
    sys.exit("memory to write and run was given")
import h11, prometheus_client, psycopg, pymysql, starlette, uvloop, zlib_ng
import onceq
from onceq.embedded import trusting
SETTINGS = onceq.Settings(history=True)
with onceq.open("alpha", name="ALPHA", create=True, listen="", settings=SETTINGS) as qm:
    qm.create_queue("private$/q", transactional=True)
    with qm.transaction() as tx:
        tx.send("private$/q", b"body")
    print(qm.receive_many("private$/q").bodies())
trusting.init("alpha")
with onceq.open("alpha", listen="127.0.0.1:0") as qm:
    print(qm.name)
"""


@pytest.mark.slow
def test_a_queue_manager_needs_no_memory_that_is_written_and_run(tmp_path: Path) -> None:
    """As MemoryDenyWriteExecute lets it: with TLS, history and all that is compiled."""
    assert setting("MemoryDenyWriteExecute") == "yes"
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this kernel is older than 6.3, and cannot refuse it")
    assert done.stdout.split("\n")[:2] == ["[b'body']", "ALPHA"], done.stdout + done.stderr


def test_the_managers_of_the_compose_file_find_each_other() -> None:
    compose = yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())
    configuration = parse(tomllib.loads((PACKAGING / "container" / "onceq.toml").read_text()))
    services = compose["services"]
    names = {
        one["environment"]["ONCEQ_NAME"]: one["networks"]["onceq"]["ipv4_address"]
        for one in services.values()
        if "ONCEQ_NAME" in one.get("environment", ())
    }
    assert len(names) == 3
    assert {name: where.split(":")[0] for name, where in configuration.peers.items()} == names
    assert set(configuration.plain_peers) == set(names.values())
    watched = services["console"]
    assert set(watched["depends_on"]) == {name.lower() for name in names}
    volumes = [volume.split(":")[1] for volume in watched["volumes"]]
    assert [one for one in watched["command"] if one.startswith("/")] == volumes
    folder = PACKAGING / "container"
    for one in services.values():
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (folder / source).is_file(), source


def test_no_container_may_write_or_do_more_than_it_must() -> None:
    compose = yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())
    for name, one in compose["services"].items():
        assert one["read_only"] is True, name
        assert one["cap_drop"] == ["ALL"], name
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert "cap_add" not in one, name
        assert not one.get("privileged"), name
        if name in ("grants", "console"):
            assert all(volume.endswith(":ro") for volume in one["volumes"]), name


def test_images_are_named_by_their_digests() -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    (default,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.M)
    assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"${PYTHON_IMAGE}"}
    assert re.fullmatch(r"python:3\.[0-9.]+-slim-[a-z]+@sha256:[0-9a-f]{64}", default)
    compose = yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())
    for name, one in compose["services"].items():
        named = re.fullmatch(r"\$\{[A-Z_]+:-[a-z/]+:v[0-9.]+@sha256:[0-9a-f]{64}\}", one["image"])
        assert named or one["image"] == "onceq", (name, "which is built here")


def test_an_image_is_made_of_files_that_the_locks_name() -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    for command in re.findall(r"pip (?:install|download|wheel)[^&]*", text):
        exact = "--require-hashes" in command and "--only-binary :all:" in command
        alone = "--no-deps" in command and "--no-build-isolation" in command
        assert exact or alone or "--no-index" in command, command
    for name in re.findall(r"packaging/\S+\.lock", text):
        assert (ROOT / name).is_file()


def test_what_the_compose_file_grants_lets_them_send_to_each_other() -> None:
    compose = yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())
    (command,) = re.findall(r"onceq grant (.*) -q", compose["services"]["grants"]["command"][-1])
    who, words, queue = shlex.split(command.replace("$$", "$"))
    request = SetRights(who, words.split(","), queue)
    request.check()
    policy = Policy()
    policy.grant(request.grant)
    for one in compose["services"].values():
        if "ONCEQ_NAME" in one.get("environment", ()):
            address = Actor(ActorKind.ADDRESS, one["networks"]["onceq"]["ipv4_address"])
            assert policy.allows(address, Right.SEND, queue_name("private$/orders"))


def test_the_prometheus_of_the_compose_file_asks_the_console_for_each_of_them() -> None:
    compose = yaml.safe_load((PACKAGING / "container" / "compose.yaml").read_text())
    scraped = yaml.safe_load((PACKAGING / "container" / "prometheus.yml").read_text())
    told = {}
    for job in scraped["scrape_configs"]:
        (target,) = job["static_configs"]
        told[job["metrics_path"]] = target["labels"]["instance"]
        assert target["targets"] == [f"127.0.0.1:{PORT}"]
        secret = Path(job["authorization"]["credentials_file"])
        assert [secret.name] == compose["services"]["prometheus"]["secrets"]
        assert str(secret.parent) == "/run/secrets"
        assert job["job_name"].startswith("onceq"), "the rules look for that"
    managers = [one[1:] for one in compose["services"]["console"]["command"] if one[0] == "/"]
    assert told == {
        f"/api/managers/{name}/metrics{page}": name.upper()
        for name in managers
        for page in ("", "/queues")
    }
    assert compose["secrets"]["console-token"] == {"environment": TOKEN}
    assert TOKEN in compose["services"]["console"]["environment"]


def test_the_container_file_names_what_is_there() -> None:
    text = (PACKAGING / "container" / "Containerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in re.findall(r"\[([a-z,]+)\]", text):
        assert set(wanted.split(",")) <= set(extras["optional-dependencies"])
    assert importlib.util.find_spec("onceq.service.main")
    assert 'CMD ["onceq", "qm", "status"]' in text, "it needs no listener for metrics"
    assert "9464" in (PACKAGING / "container" / "onceq.toml").read_text()
    assert "--start-interval" not in text, "Docker before 25 and Podman before 5 refuse it"
