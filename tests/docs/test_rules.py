"""Every number that code, tests and pages cite can be looked up, and no reference leads nowhere."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from functools import cache
from pathlib import Path

import pytest

import docs_rules

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "proof", "tests", "docs", "tools", "examples", "demo", "packaging")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")
HERE = {"docs/reference/rules.md", "tools/docs_rules.py", "tests/docs/test_rules.py"}
DOCUMENT = re.compile(r"\b(?:M[SC]-[A-Z]+|RFC \d+|PEP \d+|X/Open|SQL standard)\b")
SECTION = re.compile(r"\b[Ss]ections?,? +\d")
BARE = re.compile(r"\(\d{1,2}(?:\.\d{1,2})+\)")
NEAR = 300
"""A section number belongs to a document that is named at most this many characters before it."""

LOST = re.compile(
    r"\b(?:house idea \d|product (?:D\d|section)|wire-(?:mqqb|srmp)\b|wire page|of the semantics"
    r"|semantics sections?|testing P\d|Appendix [A-Z] of)|\(D\d{1,2}[,)]"
)
"""References to documents that are not in this repository."""


@cache
def texts() -> dict[str, str]:
    """What can cite something: every text file of the repository, by its name."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS, *PAGES],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    found = {}
    for name in listed or walked():
        if name not in HERE and (ROOT / name).is_file():
            try:
                found[name] = (ROOT / name).read_text()
            except UnicodeDecodeError:
                continue
    return found


def walked() -> list[str]:
    """The same files where there is no git, as in a source package."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return [
        path.relative_to(ROOT).as_posix()
        for path in [*paths, *(ROOT / page for page in PAGES)]
        if "__pycache__" not in path.parts
    ]


def test_every_rule_has_a_text_and_a_source() -> None:
    rules = docs_rules.rules()
    assert len(rules) > 200
    for rule in rules.values():
        assert re.fullmatch(r"[A-Z]+-\d+|[PS]\d+", rule.number), rule.number
        assert rule.text.endswith((".", "`")), rule
        for part in rule.source.removesuffix(".").split("; "):
            known = r"(M[SC]-[A-Z]+ |XA, |PEP 249|MSMQ SDK, |Windows help, |KB \d|NServiceBus, |S\d"
            assert re.match(known + r"|\.NET, |Zope, |psycopg, |onceq)", part), (rule.number, part)


def test_rules_stand_in_the_order_of_their_numbers() -> None:
    last: dict[str, int] = {}
    for number in docs_rules.rules():
        family, at = re.fullmatch(r"(.*?)-?(\d+)", number).groups()  # type: ignore[union-attr]
        assert last.get(family, -1) < int(at), number
        last[family] = int(at)


def test_every_number_that_is_cited_can_be_looked_up() -> None:
    known = {*docs_rules.rules(), *docs_rules.elsewhere()}
    missing = {
        f"{name}: {number}"
        for name, text in texts().items()
        for number in docs_rules.cited(text)
        if number not in known
    }
    page = docs_rules.PAGE.read_text()
    missing |= {f"rules.md: {number}" for number in docs_rules.cited(page) - known}
    assert not missing, "docs/reference/rules.md has no such rule"


def test_every_rule_is_cited_by_something() -> None:
    """Or says why there is no code for it."""
    used = set().union(*(docs_rules.cited(text) for text in texts().values()))
    used |= docs_rules.cited(" ".join(rule.source for rule in docs_rules.rules().values()))
    idle = [
        rule.number
        for rule in docs_rules.rules().values()
        if rule.number not in used and "Not implemented, because" not in rule.text
    ]
    assert not idle, "nothing cites these rules any more: take them out of the page"


def test_links_to_rules_name_one() -> None:
    anchors = {number.lower() for number in docs_rules.rules()}
    wrong = [
        f"{name}: {anchor}"
        for name, text in texts().items()
        if name.endswith(".md")
        for anchor in re.findall(r"\]\([^)\s]*rules\.md#([^)]+)\)", text)
        if anchor not in anchors
    ]
    assert not wrong


def test_cases_that_are_cited_exist() -> None:
    wrong = [
        f"{name}: case {number}"
        for name, text in texts().items()
        if name.startswith(("src/", "tests/conformance/"))
        for number in re.findall(r"\b[Cc]ases? (\d+)\b", text)
        if not 1 <= int(number) <= 135
    ]
    assert not wrong


def test_findings_that_are_cited_have_an_entry() -> None:
    entries = set(re.findall(r"^### ([A-Z]\d+a?): ", texts()["docs/findings.md"], re.MULTILINE))
    assert len(entries) > 40
    wrong = [
        f"{name}: finding {number}"
        for name, text in texts().items()
        for number in re.findall(r"\b[Ff]indings? ([DJKOPRSU]\d+a?)\b", text)
        if number not in entries
    ]
    assert not wrong, "docs/findings.md has no such entry"


# ---- references that lead nowhere ----------------------------------------------------------


def lost(text: str) -> list[str]:
    """References of a text to documents that nobody has, and to sections of none."""
    found = [match[0] for match in LOST.finditer(text)]
    for match in SECTION.finditer(text):
        if not DOCUMENT.search(text, max(0, match.start() - NEAR), match.end()):
            found.append(text[match.start() : match.end() + 10])
    return found


def prose(source: str) -> str:
    """Comments and docstrings of a module."""
    found = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.append(str(node.value.value))
    return "\n".join(found)


def test_no_reference_leads_nowhere() -> None:
    found = [f"{name}: {what}" for name, text in texts().items() for what in lost(text)]
    assert not found, "name a published document or a rule of docs/reference/rules.md"


def test_a_number_in_brackets_belongs_to_a_document() -> None:
    """``(2.2.19.1)`` stands only where the module names the document that has this section."""
    found = []
    for name, text in texts().items():
        if name.startswith("src/") and name.endswith(".py") and BARE.search(text):
            said = prose(text)
            found += [f"{name}: {bare}" for bare in BARE.findall(said) if not DOCUMENT.search(said)]
    assert not found


def test_pages_that_are_named_exist() -> None:
    pages = {path.name for path in ROOT.rglob("*.md") if ".venv" not in path.parts}
    missing = {
        f"{name}: {page}"
        for name, text in texts().items()
        if name.startswith(("src/", "proof/", "tools/"))
        for page in re.findall(r"(?<![\w./{}*-])(?:[\w-]+/)*([\w-]+\.md)\b", text)
        if page not in pages
    }
    assert not missing


@pytest.mark.parametrize(
    "text",
    [
        "as section 4.9 says",
        "(house idea 2)",
        "(product D6)",
        "(wire-srmp 8)",
        "Section 9.4: what",
        "(D8)",
    ],
)
def test_references_that_lead_nowhere_are_found(text: str) -> None:
    assert lost(text)


@pytest.mark.parametrize("text", ["MS-MQQB, section 4.1.1", "RFC 9112, section 6", "a section"])
def test_published_documents_may_be_cited(text: str) -> None:
    assert not lost(text)


def test_ranges_cite_what_is_between_them() -> None:
    assert docs_rules.cited("(EOD-16 to EOD-18, I9)") == {"EOD-16", "EOD-17", "EOD-18", "I9"}
    assert docs_rules.cited("UTF-8, -S-1, x-EOD-3, Q1, I9s") == set()
