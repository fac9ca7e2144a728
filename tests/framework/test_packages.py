"""Installed suites and packaged models: those that cannot be used are explained, once, and disturb no other."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pdl import hub, packages, suites
from pdl.cli import main
from pdl.errors import ConfigError, UsageError
from tests.framework.config.broken import GOOD

Install = Callable[..., None]
NET = "from pdl import nn\nclass Net(nn.Module):\n    pass\n"


@pytest.fixture
def install(demo_path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(name, **what)` puts a distribution on the path, beside the demo suite, which works."""
    site = tmp_path / "site"
    monkeypatch.setattr(sys, "path", [str(site), *demo_path, *sys.path])
    monkeypatch.setattr(packages, "_broken", {})
    monkeypatch.setattr(packages, "_reported", set())
    before = set(sys.modules)

    def make(
        name: str,
        init: str | None = None,
        /,
        *,
        entry: str = "odd = pdl_odd",
        group: str = "pdl.suites",
        needs: str = "",
        version: str = "1.0",
        **files: str,
    ) -> None:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        requires = f"Requires-Dist: {needs}\n" if needs else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")
        (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
        modules = {"__init__": init} if init is not None else {}
        for module, text in (modules | files).items():
            file = site / "pdl_odd" / f"{module.replace('.', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        packages.read.cache_clear()
        importlib.invalidate_caches()

    yield make
    packages.read.cache_clear()
    for module in set(sys.modules) - before:
        if module.partition(".")[0] == "pdl_odd":
            del sys.modules[module]


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is made known about packages that are left out."""
    lines: list[str] = []
    monkeypatch.setattr(packages, "tell", lines.append)
    return lines


@pytest.mark.parametrize("group", ["pdl.suites", "pdl.models"])
@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("pdl-core[train]>=0.3,<0.4", ">=0.3,<0.4, and this is pdl 0.1.0; type: pip install 'pdl-core>=0.3,<0.4'"),
        ("pdl-core<0.1", "<0.1, and this is pdl 0.1.0; type: pip install --upgrade pdl-odd"),
        ("pdl_core (==0.1.*,!=0.1.0)", "==0.1.*,!=0.1.0, and this is pdl 0.1.0; type: pip install --upgrade"),
    ],
)
def test_versions_that_do_not_fit(group: str, needs: str, says: str, install: Install, warned: list[str]) -> None:
    install("pdl-odd", "raise SystemExit('never imported')", group=group, needs=needs)
    assert "odd" not in packages.installed(group)
    assert "odd" not in packages.installed(group)
    (line,) = warned
    kind = packages.KINDS[group]
    assert line.startswith(f"the {kind} 'odd' (pdl-odd 1.0) is left out: it works with pdl {says}")
    assert "demo" in suites.installed()


@pytest.mark.parametrize(
    "needs",
    ["", "pdl-core[train]>=0.1,<0.2", "pdl-core", "pdl-core>=9; extra == 'future'", "pdl-cv>=7", "pdl_core_x>=3"],
)
def test_versions_that_fit(needs: str, install: Install, warned: list[str]) -> None:
    install("pdl-odd", "", needs=needs)
    assert suites.installed()["odd"].distribution == "pdl-odd"
    assert warned == []


def test_ranges() -> None:
    assert packages.fits(">=0.1,<0.2", "0.1.7")
    assert packages.fits("", "3")
    assert packages.fits(">=0.2.dev0", "0.2.dev1")
    assert not packages.fits("<0.2", "0.2.dev1")
    assert packages.fits(">=0.1,<0.2"), "the range that the suites of this repository state"
    with pytest.raises(ValueError, match=r"'0\.1 or so' is no range"):
        packages.fits("0.1 or so")


@pytest.mark.parametrize(
    ("version", "text"),
    [("0.1.0", ">=0.1,<0.2"), ("0.9.dev3", ">=0.9.dev3,<0.10"), ("1.4.2", ">=1.4,<2"), ("3", ">=3.0,<4")],
)
def test_series(version: str, text: str) -> None:
    assert packages.series(version) == text
    assert packages.fits(text, version)


@pytest.mark.parametrize(
    ("entry", "files", "says"),
    [
        (
            "odd = pdl_nowhere",
            {},
            "its entry point names pdl_nowhere, which cannot be found; type: pip install --force",
        ),
        ("odd = pdl_odd:suite", {}, "is 'pdl_odd:suite', expected the name of an import package"),
        ("odd = pdl_odd.inner", {}, "is 'pdl_odd.inner', expected the name of an import package"),
        ("odd = this", {}, "names this, which is a single file and no package"),
    ],
)
def test_an_entry_point_that_leads_nowhere(
    entry: str, files: dict[str, str], says: str, install: Install, warned: list[str]
) -> None:
    install("pdl-odd", entry=entry, **files)
    assert "odd" not in suites.installed()
    assert "demo" in suites.installed()
    assert says in warned[0]
    assert len(warned) == 1


@pytest.mark.parametrize(("group", "name"), [("pdl.suites", "odd/net"), ("pdl.models", "odd")])
def test_a_model_of_a_package_that_is_left_out(group: str, name: str, install: Install, warned: list[str]) -> None:
    install("pdl-odd", "", group=group, needs="pdl-core>=9")
    with pytest.raises(UsageError, match=rf"'{name}': the .* 'odd' \(pdl-odd 1.0\) is left out: it works with pdl >=9"):
        hub.resolve(name)


def test_one_name_claimed_twice(install: Install, warned: list[str]) -> None:
    install("pdl-odd", NET)
    install("acme-odd", version="2.0")
    assert "odd" not in suites.installed()
    assert warned == [
        "the suite 'odd' (acme-odd, pdl-odd) is left out: its name is claimed by acme-odd 2.0 (pdl_odd) and "
        "pdl-odd 1.0 (pdl_odd); keep one; type: pip uninstall acme-odd or pip uninstall pdl-odd"
    ]
    with pytest.raises(ConfigError, match=r"'pdl_odd.Net': the suite 'odd' .* claimed by"):
        suites.locate("pdl_odd.Net")


@pytest.mark.parametrize(
    ("init", "says"),
    [
        ("import nope_of_old", "No module named 'nope_of_old' (pdl_odd/__init__.py:1); type: pip install pdl-odd ("),
        ("\n1 / 0", "ZeroDivisionError: division by zero (pdl_odd/__init__.py:2); type: pip install --force-reinstall"),
        ("from pdl import Tensr", "ImportError: cannot import name 'Tensr' from 'pdl'"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "import pdl_odd failed: SystemExit: 3"),
    ],
)  # fmt: skip
def test_a_suite_that_fails_to_import(init: str, says: str, install: Install, warned: list[str]) -> None:
    install("pdl-odd", init)
    assert "odd" in suites.installed(), "metadata alone do not tell"
    assert [suite.name for suite, _ in suites.modules()].count("demo") == 1
    assert [line for line in warned if says in line] == warned
    assert len(warned) == 1
    for _ in range(2):
        with pytest.raises(ConfigError) as error:
            suites.locate("pdl_odd.Net")
        assert says in str(error.value)
    assert suites.moved("pdl_odd.Old") is None
    assert len(warned) == 1
    assert [each.name for each in packages.left_out(packages.SUITES)] == ["odd"]
    assert packages.left_out(packages.MODELS) == []


def test_a_module_of_a_suite_that_fails(install: Install, warned: list[str]) -> None:
    """One broken family costs that family only; a broken part that a recipe names is explained, not a crash."""
    families = {"models.__init__": "", "models.good": "VARIANTS = {}", "models.bad": "1 / 0", "extra": "import nope"}
    install("pdl-odd", NET, **families)
    found = [family.__name__ for suite, family in suites.model_families() if suite.name == "odd"]
    assert found == ["pdl_odd.models.good"]
    assert "(pdl-odd 1.0: pdl_odd.models.bad) is left out" in warned[0]
    assert suites.locate("pdl_odd.Net").__name__ == "Net"
    with pytest.raises(ConfigError, match=r"pdl_odd\.extra\) is left out.*No module named 'nope'"):
        suites.locate("pdl_odd.extra.Thing")


def test_without_the_command_line_it_is_a_warning(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "tell", packages._warn)
    install("pdl-odd", "", needs="pdl-core>=9")
    with pytest.warns(RuntimeWarning, match="the suite 'odd'"):
        suites.installed()
    suites.installed()


@pytest.mark.parametrize("needs", ["pdl-core>=9", "pdl-core"])
def test_commands_work_beside_a_broken_suite(
    needs: str, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """models, config check, init and info, each in a process of its own as far as notes go; one line on stderr."""
    install("pdl-odd", "import nope_of_old", needs=needs)
    install("pdl-gone", entry="gone = pdl_gone")
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    commands = (["models", "net_small"], ["init", "demo.fit", "--data", ".", "--out", "new.yaml"], ["info", "--json"])
    for command in (["config", "check", "-c", "recipe.yaml"], *commands):
        packages._reported.clear()
        packages._broken.clear()
        packages.read.cache_clear()
        assert main(command) == 0, capsys.readouterr().err
        warned = capsys.readouterr()
        assert warned.err.count("the suite 'gone'") == 1
        assert warned.err.count("the suite 'odd'") == (command[0] != "config" or needs != "pdl-core")
    facts = json.loads(warned.out)
    assert sorted(line.split("'")[1] for line in facts["left_out"]) == ["gone", "odd"]
    assert "demo (pdl_demo 1.0)" in facts["suites"]
    assert not [line for line in facts["suites"] if line.startswith(("odd", "gone"))]
    Path("recipe.yaml").write_text(GOOD.replace("pdl_demo.Net", "pdl_odd.Net"))
    assert main(["config", "check", "-c", "recipe.yaml"]) == 2
    said = capsys.readouterr().err
    assert "model._target_: " in said
    assert "the suite 'odd' (pdl-odd 1.0) is left out" in said
