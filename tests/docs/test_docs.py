"""The documentation says what the code does: generated pages, links, and samples that run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import docs as generated
import docs_cases
import onceq
from onceq import errors
from onceq.directory import file, rights_file
from onceq.store import checkpoints, identification
from onceq.wire.app import frames
from proof.programmes import PROGRAMMES

ROOT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = sorted([*(ROOT / name for name in TOP), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def test_generated_pages_are_current() -> None:
    assert generated.stale() == [], "run make docs"


def test_links_lead_somewhere() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in links(page)
        if not (page.parent / target).exists()
    ]
    assert not missing, "\n" + "\n".join(missing)


def links(page: Path) -> list[str]:
    """Files that a page links to, as they are written."""
    targets = LINK.findall(FENCE.sub("", page.read_text()))
    return [target for target in targets if not target.startswith("http")]


def test_every_page_can_be_found() -> None:
    """From the README, by following links; one to a folder leads to all its pages."""
    found: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop().resolve()
        if page.is_dir():
            todo += page.glob("*.md")
        if page in found or page.suffix != ".md" or not page.exists():
            continue
        found.add(page)
        todo += [page.parent / target for target in links(page)]
    lost = [str(page.relative_to(ROOT)) for page in PAGES if page.resolve() not in found]
    assert not lost, f"no link leads to {', '.join(lost)}: add one to docs/index.md"


# ---- lists in the documentation are those of the code --------------------------------------


def test_every_make_target_is_documented() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (line,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    targets = set(line.split()) - {"help"}
    hacking = (ROOT / "docs" / "hacking.md").read_text()
    assert set(re.findall(r"^\* `make ([\w-]+)", hacking, re.M)) == targets
    assert set(re.findall(r"^([\w-]+):", makefile, re.M)) == {*targets, "help"}
    for page in PAGES:
        for target in re.findall(r"`make ([\w-]+)", page.read_text()):
            assert target in targets, f"{page}: make {target} does not exist"


KINDS = ("Highlights", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Groups of the changelog, in their order."""


def test_the_changelog_has_each_released_version() -> None:
    """What is not released yet is in fragments."""
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## (.+)$", text, re.M)
    match = re.fullmatch(r"\[([\d.]+)\] - \d{4}-\d\d-\d\d", heads[0])
    assert match is not None, heads[0]
    if onceq.__version__.endswith(".dev0"):
        assert onceq.__version__ != f"{match[1]}.dev0", "it is released"
    else:
        assert (onceq.__version__, fragments()) == (match[1], [])
    for section in text.split("\n## ")[1:]:
        groups = re.findall(r"^### (.+)$", section, re.M)
        assert groups == [group for group in KINDS if group in groups]
        assert "\n* " not in section.partition("\n### ")[0], "a line that stands in no group"
    lines = re.findall(r"^\* .+$", text, re.M)
    assert sorted(set(lines)) == sorted(lines), "a line that stands there twice"


def fragments() -> list[Path]:
    """The files of changes that are not released yet."""
    ours = ("README.md", "template.md.j2")
    return sorted(path for path in (ROOT / "changes").iterdir() if path.name not in ours)


def test_fragments_are_as_the_changelog_needs_them() -> None:
    kinds = {kind.lower() for kind in KINDS}
    for path in fragments():
        name, kind, ending = path.name.rsplit(".", 2)
        assert name, path
        assert (kind in kinds, ending) == (True, "md"), f"{path.name}: its kind is none of {kinds}"
        text = path.read_text()
        assert re.fullmatch(r"(\* \S.*\n(  \S.*\n)*)+", text), (
            f"{path.name}: lines that begin with *"
        )
        assert not re.search(r"\bmake [a-z-]+`|simulator", text), f"{path.name}: not for users"
        for target in LINK.findall(text):
            assert (ROOT / target).exists(), f"{path.name}: {target}"


def test_every_tool_of_the_makefile_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for name in re.findall(r"tools/\w+\.py", makefile):
        assert (ROOT / name).exists(), name
    programmes = re.findall(r"-m proof ([\w-]+)", makefile)
    assert "sim" in programmes
    assert set(programmes) <= set(PROGRAMMES)


def guarantees() -> dict[str, tuple[str, str]]:
    """Promise and watchers of each line of the list."""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    lines = text.replace("\n  ", " ")
    rows = re.findall(r"^\* (I\d+a?): (.+) \*([a-z, -]+)\*$", lines, re.M)
    assert len(rows) == len({row[0] for row in rows})
    return {number: (promise, watched) for number, promise, watched in rows}


def test_every_invariant_has_a_promise_and_watchers() -> None:
    table = guarantees()
    assert list(table) == ["I1", "I2", "I3", "I3a", *(f"I{n}" for n in range(4, 29))]
    for number, (promise, watched) in table.items():
        assert watched or "*Not there yet" in promise, number
        known = {"", "cases", "simulator", "crash", "model", "kill", "two-phase", "spark"}
        known |= {"fuzz", "property", "unit"}
        assert set(watched.split(", ")) <= known, number


def test_watchers_speak_of_what_they_watch() -> None:
    """A programme that is said to watch a promise names it in its messages or its text."""
    homes = {"simulator": ROOT / "proof" / "sim", "model": ROOT / "tests" / "model"}
    texts = {
        name: "\n".join(path.read_text() for path in home.rglob("*.py"))
        for name, home in homes.items()
    }
    silent = [
        f"{number}: {name}"
        for number, (_, watched) in guarantees().items()
        for name, text in texts.items()
        if name in watched.split(", ") and not re.search(rf"\b{number}\b", text)
    ]
    assert not silent


@pytest.mark.tier("rest")
def test_every_test_of_a_case_is_named_after_one() -> None:
    cases = {number for _, group in docs_cases.groups() for number in group}
    assert cases == set(range(1, 136))
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"^ *(?:async )?def (test_case_\d\w*)", path.read_text(), re.M):
            assert docs_cases.NAME.match(name), f"{path}: {name}: write test_case_004_..."
    unknown = [test for test in docs_cases.tests() if not cases.issuperset(test.cases)]
    assert not unknown, "there are 135 cases"


@pytest.mark.tier("rest")
def test_places_of_cases_are_those_where_pytest_runs_them() -> None:
    """What the table says of inside and processes is what is collected."""
    where = {test.name: test.where for test in docs_cases.tests() if "conformance" in test.file}
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/conformance"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    found: dict[str, set[str]] = {}
    for name, kind in re.findall(r"::(test_case_\w+?)(?:\[([^\]]*)\])?$", listed, re.M):
        kinds = {"inside", "processes"}.intersection(re.split(r"[-\]]", kind)) or {"inside"}
        found.setdefault(name, set()).update(kinds)
    assert found == {name: set(kinds) - {"client"} for name, kinds in where.items()}


def test_the_page_about_upgrades_has_the_formats_of_the_code() -> None:
    page = (ROOT / "docs" / "how-to" / "upgrade.md").read_text()
    said = dict(re.findall(r"^\| \[([^]]+)\]\([^)]+\) \| (\d+)", page, re.M))
    assert {name: int(number) for name, number in said.items()} == {
        "store": identification.FORMAT,
        "checkpoint": checkpoints.VERSION,
        "backup": identification.MANIFEST_FORMAT,
        "directory's file": file.FORMAT,
        "directory's rights": rights_file.FORMAT,
        "client protocol": frames.VERSION,
    }
    older = re.search(r"1 to (\d+) are opened; .* they become format (\d+)", page)
    assert older is not None
    now = identification.FORMAT
    assert [int(number) for number in older.groups()] == [now - 1, now]


def test_errors_have_codes_of_their_own() -> None:
    kinds = [errors.OnceqError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    mine = [kind for kind in dict.fromkeys(kinds) if kind.__module__.startswith("onceq.")]
    codes = [kind.code for kind in mine]
    assert len(codes) == len(set(codes)), "two errors have one code"
    assert errors.every() == dict(sorted(zip(codes, mine, strict=True)))
    for kind in mine:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)
        assert (kind.__doc__ or "").split("\n")[0].endswith((".", ";")), f"{kind}: say what it is"


def test_every_limit_and_setting_says_why() -> None:
    for page in ("limits.md", "settings.md", "errors.md"):
        for line in generated.PAGES[page]().splitlines():
            if line.startswith("* `"):
                assert len(line.partition(": ")[2].strip()) > 3, line


# ---- samples ---------------------------------------------------------------------------------


def blocks() -> list[tuple[str, str]]:
    """Python samples by page: all blocks of a page run one after another, as a reader would."""
    found = []
    for page in PAGES:
        samples = [text for kind, text in FENCE.findall(page.read_text()) if kind == "python"]
        if samples:
            found.append((page.relative_to(ROOT).as_posix(), "\n".join(samples)))
    return found


def test_every_python_block_is_marked() -> None:
    """A block either runs here, or says in its first line why not."""
    for page in PAGES:
        for kind, text in FENCE.findall(page.read_text()):
            if kind.startswith("python") and kind != "python":
                assert kind == "python no-run", f"{page}: unknown mark {kind!r}"
                assert text.startswith("# "), f"{page}: a block that does not run must say why"


PUBLIC = (
    "onceq", "onceq.aio", "onceq.directory", "onceq.errors", "onceq.foreign", "onceq.otel",
    "onceq.partners", "onceq.spark", "onceq.testing",
)  # fmt: skip
"""What samples may import, and what stands directly below; all other modules may change."""


def test_samples_import_public_names_only() -> None:
    for page in PAGES:
        for kind, text in FENCE.findall(page.read_text()):
            if kind.startswith("python"):
                for module, names in imported(text):
                    assert module in PUBLIC or module.rpartition(".")[0] in PUBLIC[2:], page
                    if module == "onceq":
                        assert set(names) <= set(onceq.__all__), f"{page}: {names}"


def imported(text: str) -> list[tuple[str, list[str]]]:
    """Modules of onceq that a sample imports, and the names that it takes from each."""
    found: list[tuple[str, list[str]]] = []
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, ast.ImportFrom):
            found.append((node.module or "", [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            found += [(alias.name, []) for alias in node.names]
    return [(module, names) for module, names in found if module.partition(".")[0] == "onceq"]


def run_sample(page: str, text: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stdout}{done.stderr}"


@pytest.mark.tier("rest")
@pytest.mark.slow
@pytest.mark.parametrize(("page", "text"), blocks(), ids=[page for page, _ in blocks()])
def test_samples_run(page: str, text: str, tmp_path: Path) -> None:
    run_sample(page, text, tmp_path)


@pytest.mark.slow
def test_the_first_example_runs_twice_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Whoever tries it tries it again; and nothing of it goes on looking for other computers."""
    text = dict(blocks())["README.md"]
    for _ in range(2):
        run_sample("README.md", text, tmp_path)
    with onceq.open(str(tmp_path / "alpha")) as qm:
        assert qm.admin.outgoing() == []
        kept = {name: qm.queue(rf"private$\{name}")["messages"] for name in ("orders", "stock")}
        assert kept == {"orders": 0, "stock": 2}
