"""Pages: what a browser may do with them, commands, sections beside each other, long tables."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from pdl.report import Section, command, document, facts, figure, number, table


def policy(page: str) -> dict[str, str]:
    """The rules of a page, by kind."""
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert found
    rules = (each.strip().partition(" ") for each in found[1].split(";"))
    return {kind: allowed for kind, _, allowed in rules}


def test_a_page_without_commands_has_no_script() -> None:
    page = document("t", [Section("a", "<p>text</p>")])
    assert "<script" not in page
    assert policy(page) == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:", "media-src": "data:",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_only_the_script_that_copies_may_run() -> None:
    page = document("t", [Section("Next", command("pdl predict 'a & b' <x>"))])
    assert '<div class="command"><pre><code>pdl predict &#x27;a &amp; b&#x27; &lt;x&gt;</code></pre></div>' in page
    (script,) = re.findall(r"(?s)<script>(.*?)</script>", page)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy(page)["script-src"] == f"'sha256-{digest}'"
    assert "button" not in page.replace(script, ""), "without the script there is no button"
    assert page.index("http-equiv") < page.index("<style>") < page.index("<script>")


def test_a_page_asks_for_nothing() -> None:
    page = document("t", [Section("a", command("b"))], lead="<p>c</p>")
    assert not re.search(r"""(src|href)=|url\(|@import|https?:|\son\w+=["']""", page)


def test_narrow_sections_stand_beside_each_other() -> None:
    sections = [Section(name, "", narrow=name in "bcd") for name in "abcde"]
    page = document("t", sections)
    assert re.findall(r"<h2>(\w)</h2>", page) == list("abcde")
    (beside,) = re.findall(r'(?s)<div class="beside">(.*?)</div>', page)
    assert re.findall(r"<h2>(\w)</h2>", beside) == list("bcd")


@pytest.mark.parametrize(("rows", "shown"), [(0, 0), (5, 5), (6, 6), (7, 7), (8, 5), (100, 5)])
def test_long_tables_fold(rows: int, shown: int) -> None:
    made = table([(f"row {k}", k) for k in range(rows)], head=("name", "number"), fold=5)
    first, _, rest = made.partition("<details>")
    assert first.count("<td>") == shown
    assert rest.count("<td>") == rows - shown
    assert (f"<summary>{rows - shown} more</summary>" in rest) == (rows > shown)
    assert table([(f"row {k}", k) for k in range(rows)]).count("<details>") == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (1 / 3, "0.3333"), (-1234.56, "-1235"), (9999.4, "9999"), (9999.7, "10,000"),
        (12723.3571, "12,723"), (1e9, "1e+09"), (1e-7, "1e-07"), (float("nan"), "-"), (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text
    assert f'<td class="n">{text}</td>' in table([(value,)])


def test_what_is_written_is_escaped() -> None:
    assert figure("<svg/>", "<b>") == '<figure class="wide"><svg/><figcaption>&lt;b&gt;</figcaption></figure>'
    assert facts([("<a>", "<b>")]) == "<dl><dt>&lt;a&gt;</dt><dd>&lt;b&gt;</dd></dl>"
