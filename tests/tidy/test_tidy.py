"""The style, held by a test; and the test, held by planted offenders."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.tidy.layout import THEMES, homeless, lenders
from tests.tidy.rules import BANS, faults, lost_files, orphans

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "proof", "tests", "tools", "demo", "examples", "docs", "packaging")
TOP = (
    ".ci/run", ".editorconfig", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md",
    "Makefile", "README.md", "pyproject.toml", "requirements.lock",
)  # fmt: skip
KINDS = (".py", ".md", ".toml", ".txt", ".hex", ".service", ".cfg", ".sh")


def all_files() -> list[Path]:
    """Every file that people write: in the folders, and at the top."""
    inside = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in KINDS and not any(part.startswith(".") for part in path.parts[-3:])
    ]
    return [*inside, *(ROOT / name for name in TOP)]


def test_every_file_is_tidy() -> None:
    found = [fault for path in all_files() for fault in faults(path, path.read_text(), ROOT)]
    assert not found, "\n" + "\n".join(found)


def test_no_module_is_left_over() -> None:
    assert not list(orphans(ROOT))


def test_every_file_that_is_named_exists() -> None:
    """One that was joined with another is named by many."""
    assert not list(lost_files(ROOT))


def test_a_file_that_is_gone_is_found(tmp_path: Path) -> None:
    room = tmp_path / "src" / "onceq" / "core"
    room.mkdir(parents=True)
    (room / "a.py").write_text('"""As in ``b.py``, ``core/a.py`` and ``core/c.py``."""\n')
    (room / "b.py").write_text("# Lines without a mark, such as d.py, are no reference.\n")
    assert list(lost_files(tmp_path)) == ["src/onceq/core/a.py:1: there is no core/c.py"]


def test_unit_tests_are_named_after_what_they_test() -> None:
    assert not list(homeless(ROOT))


def test_no_theme_is_left_over() -> None:
    """One whose file is gone, or is named after a module by now, excuses the next of its name."""
    assert [name for name in THEMES if f"tests/unit/{name}" not in set(homeless(ROOT, {}))] == []
    assert all(THEMES.values())


def test_what_tests_share_is_not_in_a_file_of_tests() -> None:
    found = list(lenders(ROOT))
    assert not found, "move what is shared: " + "\n".join(found)


def test_nothing_that_is_made_is_kept() -> None:
    """What .gitignore names is not in the repository."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == ""


# ---- planted offenders -------------------------------------------------------------------

CORE = "src/onceq/core/planted.py"
OFFENCES = [
    (CORE, "import pickle\n", "runs what it reads"),
    (CORE, "from pickle import loads\n", "runs what it reads"),
    ("tests/unit/planted.py", "import pickle as p\np.loads(b'')\n", "runs what it reads"),
    (CORE, "x = eval('1')\n", "eval"),
    (CORE, "exec('1')\n", "exec"),
    (CORE, "import yaml\nyaml.load('')\n", "tomllib"),
    (CORE, "import xml.etree.ElementTree as tree\n", "envelope.py"),
    (CORE, "from xml.dom import minidom\n", "envelope.py"),
    (CORE, "import time\nnow = time.time()\n", "clock"),
    (CORE, "import time as t\nnow = t.monotonic_ns()\n", "clock"),
    (CORE, "from time import monotonic\n", "clock"),
    (CORE, "from time import time as now\nnow()\n", "clock"),
    (CORE, "from datetime import datetime\ndatetime.now()\n", "clock"),
    (CORE, "import random\n", "random"),
    (CORE, "from random import Random\n", "random"),
    (CORE, "import os\nos.fsync(3)\n", "files"),
    (CORE, "with open('x') as file:\n    pass\n", "files"),
    (CORE, "print('hello')\n", "prints"),
    (CORE, "# TO" + "DO later\n", "mark"),
    (CORE, "try:\n    pass\nexcept:\n    pass\n", "bare except"),
    (CORE, "good = text.isdecimal() and int(text)\n", "read_number"),
    (CORE, "def f():\n" + "    x = 1\n" * 80, "has 81 lines"),
    (CORE, "PLACE = '/ro" + "ot/store'\n", "path of one machine"),
    ("tools/planted.py", "URL = 'https://py" + "pi.org'\n", "package index"),
    ("tests/unit/test_planted.py", "import time\ntime.sleep(1)\n", "sleeps"),
    ("tests/unit/test_planted.py", "import pytest\npytest.skip()\n", "saying why"),
    ("tests/unit/test_planted.py",
     "import pytest\n@pytest.mark.skip\ndef test() -> None: ...\n", "saying why"),
    ("tests/unit/test_planted.py",
     "import pytest\n@pytest.mark.skipif(True)\ndef test() -> None: ...\n", "saying why"),
    ("tests/daemon/test_planted.py", 'Q = r"DIRECT=' + r'TCP:127.0.0.1\q"' + "\n", "not started"),
    ("tests/spark/test_planted.py", 'Q = "DIRECT=' + 'http://localhost/msmq/q"\n', "not started"),
    ("docs/planted.md", "no title\n", "begin with its title"),
    ("docs/planted.md", "# A\n\n# B\n", "second title"),
    ("docs/planted.md", "# A\n\n### B\n", "level 3 below one of level 1"),
    ("docs/planted.md", "# A\n\n```sh\nls\n", "does not end"),
    ("docs/planted.md", "# A\n\n/wo" + "rk/main\n", "path of one machine"),
    ("requirements.lock", "--index" + "-url x\n", "package index"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "said"), OFFENCES)
def test_offenders_are_found(name: str, text: str, said: str) -> None:
    whole = '"""A module."""\n' + text if name.endswith(".py") else text
    found = list(faults(ROOT / name, whole, ROOT))
    assert any(said in fault for fault in found), found
    assert all(fault.startswith(name) for fault in found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (CORE, "x = 'print(1) and eval(1) and time.time()'\n"),
        (CORE, "def check_open() -> None: ...\ncheck_open()\n"),
        (CORE, "def f(random: Callable[[int], bytes]) -> bytes:\n    return random(5)\n"),
        (CORE, "class A:\n    def open(self) -> None:\n        self.open()\n"),
        ("src/onceq/service/clock.py", "import time\ntime.time_ns()\n"),
        ("src/onceq/store/files.py", "import os\nos.fdatasync(1)\n"),
        ("src/onceq/testing/planted.py", "import random\n"),
        ("src/onceq/cli/planted.py", "print('hello')\n"),
        ("src/onceq/model/identity.py", "good = text.isdigit() and int(text)\n"),
        ("tests/unit/test_planted.py", "import pytest\npytest.skip('no loop device')\n"),
        ("tests/unit/test_planted.py",
         "import pytest\n@pytest.mark.skip(reason='x')\ndef test() -> None: ...\n"),
        ("docs/planted.md", "# A\n\n```sh\n# not a title\n```\n\n## B\n\n### C\n\n## D\n"),
    ],
)  # fmt: skip
def test_what_is_allowed_is_not_found(name: str, text: str) -> None:
    whole = '"""A module."""\n' + text if name.endswith(".py") else text
    assert list(faults(ROOT / name, whole, ROOT)) == []


def test_a_missing_docstring_is_found() -> None:
    assert any("docstring" in fault for fault in faults(ROOT / CORE, "x = 1\n", ROOT))


def test_a_module_that_nobody_imports_is_found(tmp_path: Path) -> None:
    package = tmp_path / "src" / "onceq" / "model"
    package.mkdir(parents=True)
    for name, text in {
        "alone.py": "from onceq.model.alone import nothing\n",
        "used.py": "",
        "started.py": "",
        "user.py": "from onceq.model import used\n",
        "inner.py": "",
    }.items():
        (package / name).write_text(text)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "run.py").write_text(
        'import onceq.model.user\nfrom onceq.model.inner import thing\nX = "onceq.model.started"\n'
    )
    (tmp_path / "pyproject.toml").write_text("")
    assert list(orphans(tmp_path)) == ["onceq.model.alone is imported by nobody"]


def test_a_unit_test_of_nothing_is_found(tmp_path: Path) -> None:
    for name in (
        "src/onceq/store/log.py", "src/onceq/spark/audit/__init__.py",
        "src/onceq/errors/__init__.py", "src/onceq/core/ending/table.py", "tools/check.py",
        "tests/tiers.py",
        "tests/unit/store/test_log.py", "tests/unit/store/test_log_again.py",
        "tests/unit/spark/test_audit.py", "tests/unit/test_errors.py", "tests/unit/test_tiers.py",
        "tests/unit/tools/test_check.py", "tests/unit/store/helper.py",
        "tests/unit/core/ending/test_table.py", "tests/unit/core/test_table.py",
        "tests/unit/store/test_logs.py", "tests/unit/test_log.py", "tests/unit/store/test_tiers.py",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    wrong = ["core/test_table.py", "store/test_logs.py", "store/test_tiers.py", "test_log.py"]
    assert list(homeless(tmp_path, {})) == [f"tests/unit/{name}" for name in wrong]
    assert list(homeless(tmp_path, dict.fromkeys(wrong, "why"))) == []


def test_what_is_lent_by_a_file_of_tests_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "daemon"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text("from tests.daemon.shell import x\n")
    (folder / "test_b.py").write_text("def f() -> None:\n    from tests.daemon.test_a import x\n")
    assert list(lenders(tmp_path)) == ["tests/daemon/test_b.py:2: takes from tests.daemon.test_a"]


def test_every_home_of_a_ban_exists() -> None:
    """A home that is gone would let the next file of that name in."""
    missing = [home for ban in BANS for home in ban.homes if not (ROOT / ban.where / home).exists()]
    assert not missing
