"""Alert rules and dashboard: every name in them is exposed, and each alert's cause makes it fire.

What the rules say is Prometheus's matter: its tool judges each by what a queue manager in that
trouble has shown, and a real server scrapes a real daemon (``tests/programs.py`` has both).
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import exposition
from onceq.file_access import CONFIGURATION_FILE
from tests.daemon.process import WAIT_S, Process
from tests.daemon.shell import free_port
from tests.docs.alerts import CAUSES, Samples, Seen, samples
from tests.programs import NoServer, prometheus

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "prometheus" / "onceq.rules.yml"
SCRAPE = ROOT / "packaging" / "prometheus" / "prometheus.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "onceq.json"
yaml: Any = importlib.import_module("yaml")
LABELS_OF_PROMETHEUS = {"job", "instance", "le"}
"""What a collector adds by itself."""


def tool(name: str) -> Path:
    """A program of Prometheus; without it the test is skipped, and says so."""
    try:
        return prometheus(name)
    except NoServer as error:
        pytest.skip(f"NOTHING WAS RUN BY {name.upper()}: {error}")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Where an expression stands, and what it says."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def exposed() -> dict[str, set[str]]:
    """Every name that a collector sees, with its labels."""
    found = {}
    for one in exposition.METRICS:
        if one.kind == "histogram":
            for tail in ("_bucket", "_sum", "_count"):
                found[one.name + tail] = set(one.labels)
        else:
            found[one.exposed] = set(one.labels)
    return found


@pytest.mark.parametrize(("where", "said"), list(expressions()))
def test_every_name_and_label_is_exposed(where: str, said: str) -> None:
    known = exposed()
    used = re.findall(r"\b(onceq_\w+)(?:\{([^}]*)\})?", said)
    assert used or said.startswith("up{"), where
    for name, matchers in used:
        assert name in known, f"{where}: there is no {name}"
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            assert label in known[name] | LABELS_OF_PROMETHEUS, f"{where}: {name} has no {label}"
    allowed = set().union(*(known[name] for name, _ in used)) | LABELS_OF_PROMETHEUS
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", said):
        assert set(re.findall(r"\w+", labels)) <= allowed, where


def test_a_name_that_is_not_exposed_would_be_noticed() -> None:
    with pytest.raises(AssertionError, match="there is no onceq_mesages"):
        test_every_name_and_label_is_exposed("x", "onceq_mesages > 1")
    with pytest.raises(AssertionError, match="has no queue"):
        test_every_name_and_label_is_exposed("x", 'onceq_messages{queue="a"} > 1')


def test_every_alert_has_a_cause_and_says_what_to_do() -> None:
    assert {rule["alert"] for rule in rules()} == {*CAUSES, "OnceqDown"}
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith("."), rule["alert"]
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            names = re.findall(r"onceq_\w+", rule["expr"])
            known = set().union(*(exposed()[name] for name in names)) if names else set()
            assert label in known | LABELS_OF_PROMETHEUS, f"{rule['alert']}: {label}"


@pytest.mark.parametrize("alert", list(CAUSES))
def test_a_queue_manager_in_that_trouble_shows_it(alert: str) -> None:
    cause = CAUSES[alert]
    seen = [samples(view) for _, view in cause.seen()]
    assert cause.holds(seen[-1])


def _series(seen: list[tuple[int, Samples]]) -> list[dict[str, str]]:
    """What was shown, minute by minute, each value until the next look."""
    last = seen[-1][0]
    found = []
    for name, labels in seen[-1][1]:
        values, at = [], 0
        for minute in range(last + 1):
            while at + 1 < len(seen) and seen[at + 1][0] <= minute:
                at += 1
            shown = seen[at][1].get((name, labels))
            values.append("_" if shown is None else f"{shown:.10g}")
        more = [f'{key}="{escaped(text)}"' for key, text in labels]
        said = ",".join(('job="onceq"', 'instance="alpha:9464"', *more))
        found.append({"series": f"{name}{{{said}}}", "values": " ".join(values)})
    return found


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _firing(alert: str, minute: int, count: int) -> dict[str, Any]:
    wanted = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    return {
        "expr": wanted,
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": "{}", "value": count}],
    }


def _judged(tmp_path: Path, series: list[dict[str, str]], tests: list[dict[str, Any]]) -> None:
    """Let promtool judge the rules."""
    made = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps(made))  # JSON is YAML
    done = subprocess.run(
        [tool("promtool"), "test", "rules", str(file)],
        capture_output=True, text=True, check=False, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("alert", list(CAUSES))
def test_the_alert_fires_when_its_cause_is_there_and_not_before(tmp_path: Path, alert: str) -> None:
    seen = [(minute, samples(view)) for minute, view in CAUSES[alert].seen()]
    _judged(tmp_path, _series(seen), [_firing(alert, 0, 0 if _has_to_wait(alert) else 1),
                                      _firing(alert, seen[-1][0], 1)])  # fmt: skip


def _has_to_wait(alert: str) -> bool:
    """Whether the rule is not true at once; of two it is, as their cause is there at the start."""
    return alert not in ("OnceqDamagedMessages",)


@pytest.mark.slow
def test_one_that_is_well_alarms_nobody(tmp_path: Path) -> None:
    series = _series([(minute, samples(view)) for minute, view in _well()])
    _judged(tmp_path, series, [_firing(alert, 60, 0) for alert in CAUSES])


def _well() -> Seen:
    """Messages come and go."""
    view = next(iter(CAUSES["OnceqDiskFillsUp"].seen()))[1]
    for minute in range(0, 61, 10):
        yield minute, view


@pytest.mark.slow
def test_one_that_is_down_is_told(tmp_path: Path) -> None:
    up = [{"series": 'up{job="onceq",instance="alpha:9464"}', "values": "1 1 0 0 0 0"}]
    _judged(tmp_path, up, [_firing("OnceqDown", 1, 0), _firing("OnceqDown", 5, 1)])


def test_promtool_takes_the_files() -> None:
    # The file with the token is not there.
    for what in (["rules", str(RULES)], ["config", "--syntax-only", str(SCRAPE)]):
        done = subprocess.run(
            [tool("promtool"), "check", *what],
            capture_output=True, text=True, check=False, timeout=WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_server_shows_a_token_wherever_it_asks() -> None:
    for job in yaml.safe_load(SCRAPE.read_text())["scrape_configs"]:
        assert list(job["authorization"]) == ["credentials_file"], job["job_name"]


@pytest.mark.tier("rest")
@pytest.mark.slow
def test_a_real_server_scrapes_a_real_daemon(tmp_path: Path) -> None:
    path = tmp_path / "alpha"
    path.mkdir()
    shown = f"127.0.0.1:{free_port()}"
    (path / CONFIGURATION_FILE).write_text(f'listen = "127.0.0.1:0"\nmetrics_listen = "{shown}"\n')
    daemon = Process(path, "--create", "ALPHA").started()
    token = tmp_path / "onceq.token"
    with onceq.connect(str(path)) as qm:
        token.write_text(qm.tokens.create("prometheus", grants={"": "monitor"}).token)
    where = f"127.0.0.1:{free_port()}"
    configuration = yaml.safe_load(SCRAPE.read_text())
    configuration["rule_files"] = [str(RULES)]
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in configuration["scrape_configs"]:
        job["static_configs"] = [{"targets": [shown]}]
        job["authorization"]["credentials_file"] = str(token)
        job.pop("scrape_interval", None)
    (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))
    with open(tmp_path / "prometheus.log", "w") as log:
        server = subprocess.Popen(
            [tool("prometheus"), f"--config.file={tmp_path}/prometheus.yml",
             f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address={where}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        found = set[str]()
        wanted = {name for name, labels in exposed().items() if labels <= LABELS_OF_PROMETHEUS}
        wanted -= {"onceq_certificate_end_timestamp_seconds"}
        while not wanted <= found:
            assert server.poll() is None, (tmp_path / "prometheus.log").read_text()
            found = _names(where)
    finally:
        server.terminate()
        server.wait(WAIT_S)
        assert daemon.end() == 0


def _names(where: str) -> set[str]:
    """Names of all series that a server has."""
    url = f"http://{where}/api/v1/label/__name__/values"
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return set(json.load(answer)["data"])
    except OSError:
        return set()  # it is not there yet
