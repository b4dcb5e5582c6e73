"""Where tests stand: unit tests beside what they test, and what tests share in rooms of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.tidy.source import read

THEMES: Final = {
    "core/state/test_old_stores.py": "bytes of records and checkpoints that must stay readable",
    "service/test_looks_in_turn.py": "how looks share the loop with other work",
    "service/test_damage.py": "damage is found and told by engine, store and core together",
    "service/test_pages.py": "pages and the unit file that tell of the configuration and the log",
}
"""Files of ``tests/unit`` that are about no single module, and why."""


def homeless(root: Path, themes: Mapping[str, str] = THEMES) -> Iterator[str]:
    """Unit tests that are named after no module.

    ``tests/unit/store/test_log.py`` is about ``src/onceq/store/log.py``, and so may be
    ``test_log_something.py`` beside it. ``tests/unit/tools`` is about ``tools``,
    ``tests/unit/proof`` about ``proof``; a file directly in ``tests/unit`` is about a module of
    ``tests`` or of ``src/onceq``.
    """
    unit = root / "tests" / "unit"
    for path in sorted(unit.rglob("test_*.py")):
        name = path.relative_to(unit)
        if name.as_posix() in themes:
            continue
        homes = [root / "src" / "onceq" / name.parent]
        if name.parts[0] in ("proof", "tools"):
            homes = [root / name.parent]
        elif len(name.parts) == 1:
            homes.append(root / "tests")
        words = name.stem.removeprefix("test_").split("_")
        stems = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        if not any(
            (home / f"{stem}.py").is_file() or (home / stem / "__init__.py").is_file()
            for home in homes
            for stem in stems
        ):
            yield path.relative_to(root).as_posix()


def lenders(root: Path) -> Iterator[str]:
    """Imports from a file of tests: whoever renames or splits it would break another one."""
    for path in sorted((root / "tests").rglob("*.py")):
        for line, module, _ in read(path.read_text()).taken:
            if module.rpartition(".")[2].startswith("test_"):
                name = path.relative_to(root).as_posix()
                yield f"{name}:{line}: takes from {module}"
