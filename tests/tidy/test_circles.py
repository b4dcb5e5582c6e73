"""No two modules of product or proof import each other; and the check, held by planted circles."""

from __future__ import annotations

from pathlib import Path

from tests.tidy.circles import circles, imports

ROOT = Path(__file__).resolve().parents[2]


def test_no_modules_import_each_other() -> None:
    product, proof = imports(ROOT / "src"), imports(ROOT, "proof")
    assert len(product) > 300
    assert "proof.sim.world" in proof
    found = [*circles(product), *circles(proof)]
    assert not found, "\n".join(" <-> ".join(circle) for circle in found)


def _modules(folder: Path, **texts: str) -> Path:
    package = folder / "onceq"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    return folder


def test_a_circle_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    src = _modules(
        tmp_path,
        one="from onceq.two import x\n",
        two="if TYPE_CHECKING:\n    from onceq import three\n",
        three="def f():\n    import onceq.one\n",
        four="from onceq.one import x\n",
    )
    assert circles(imports(src)) == [["onceq.one", "onceq.three", "onceq.two"]]


def test_what_flows_one_way_is_no_circle(tmp_path: Path) -> None:
    src = _modules(
        tmp_path, one="from onceq.two import x\nfrom onceq import three\n", two="import json\n",
        three="import onceq.two\n",
    )  # fmt: skip
    assert not circles(imports(src))
