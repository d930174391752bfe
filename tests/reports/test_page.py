"""The page: from a saved folder alone, escaped, with the data that `--json` prints."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from legroom import api
from legroom.cli.app import app
from legroom.errors import UsageError
from legroom.questions.memory import ask
from legroom.reports.numbers import quantity
from legroom.reports.page import embed_json, gather_page, write_page
from legroom.reports.saved_answers import read_answers, save_answer
from legroom.reports.views import to_json
from legroom.texts import json_text


def embedded(folder):
    """The figure data that the page holds."""
    page = (folder / "report.html").read_text()
    return json.loads(re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)[1])


def test_page_and_json_hold_the_same_figures(folder, answers):
    assert embedded(folder) == [
        figure for answer in answers for figure in json.loads(json.dumps(to_json(answer)))["figures"]
    ]


def test_a_saved_answer_tells_what_it_told(folder, answers):
    saved, notes = read_answers(folder)
    told = [[json.loads(json_text(to_json(one))) for one in every] for every in (answers, [s.answer for s in saved])]
    assert told[0] == told[1][::-1]
    assert notes == []


def test_names_are_text_and_never_markup(folder):
    page = (folder / "report.html").read_text()
    assert "<b>" not in page[: page.index('<script type="application/json"')]
    assert "&lt;/script&gt;&lt;b&gt;bold" in page
    assert page.count("</script>") == 3


def test_embedded_json_is_ascii_without_markup_and_reads_back():
    value = {"a": "</script><!-- & \u2028 \u2029 é", "b": [1.5, None]}
    text = embed_json(value)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == value


def test_numbers_that_json_has_no_word_for_become_gaps():
    assert json.loads(embed_json([1.0, float("nan"), float("inf")])) == [1.0, None, None]


def test_the_page_needs_nothing_from_elsewhere(folder):
    page = (folder / "report.html").read_text()
    own = page[: page.index("<script>")]
    assert "http://" not in own
    assert "https://" not in own
    assert "default-src 'none'" in own


def test_every_question_has_a_section_that_opens_with_its_sentence(folder, planted):
    page = (folder / "report.html").read_text()
    for name, answer in planted.items():
        section = page[page.index(f'<section id="{name}">') :]
        assert section.index(to_json(answer)["summary"][:20]) < section.index("<table")
    assert page.count("Measuring took 12.5 s.") == 2
    assert page.count("planted, 4 cores, Planted GPU") == 2


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("/home/me/work/train.py:job", "train.py"),
        ("/home/me/work/train.py:small", "train.py:small"),
        ("package.module:job", "package.module:job"),
        ("digits", "digits"),
    ],
)
def test_the_title_is_the_jobs_short_name_and_the_address_stands_below(tmp_path, plan_answer, job, name):
    save_answer(tmp_path, replace(plan_answer, job=job))
    page = write_page(tmp_path).read_text()
    assert f"<title>{name} - legroom</title>" in page
    assert f"<h1>{name}</h1>" in page
    assert (job in page) is True
    assert (f'<p class="address">{job}</p>' in page) is (name != job)


def test_report_writes_the_same_page_without_torch(folder):
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    code = (
        "import sys; from legroom.cli.app import app; from typer.testing import CliRunner\n"
        "ran = CliRunner().invoke(app, ['report', sys.argv[1]])\n"
        "print(ran.exit_code, ran.output.startswith('Wrote'), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "True", "False"], done.stderr
    assert (folder / "report.html").read_bytes() == before


def test_help_imports_neither_plotting_nor_templates():
    code = (
        "import sys; from legroom.cli.app import app; from typer.testing import CliRunner\n"
        "CliRunner().invoke(app, ['--help']); print({'plotly', 'jinja2', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_a_page_is_small_enough_to_send(folder):
    assert (folder / "report.html").stat().st_size < 2.5e6


def test_the_page_ends_with_what_it_rests_on(folder, planted, memory_answer):
    page = (folder / "report.html").read_text()
    evidence = page[page.index('<section id="evidence">') :]
    assert "<section" not in evidence[1:]
    for name in planted:
        assert f'<a href="#{name}">{name}</a>' in evidence
    assert all(kind in evidence for item in memory_answer.recommendations for kind in item.evidence)


def test_long_tables_are_closed_at_first_and_short_ones_open(folder):
    page = (folder / "report.html").read_text()
    long = page[: page.index('id="table-devices-points"')].rpartition("<summary>")[2]
    assert long.startswith("Devices, measured and forecast (")
    assert "<h3>What crosses the wire in a step</h3>" in page


def test_a_later_answer_replaces_one_in_the_same_circumstances(folder, memory_answer):
    save_answer(folder, replace(memory_answer, max_batch_size=77))
    save_answer(folder, replace(memory_answer, budget_bytes=10**9, max_batch_size=55))
    page = gather_page(folder)
    (memory,) = [part for part in page.sections if part.question == "memory"]
    assert "A batch of 55 " in memory.section.summary
    assert [row[3] for row in memory.section.tables[0].rows] == [55, 77]


def test_answers_for_other_lists_of_sizes_are_kept_apart_under_names_that_a_disk_takes(tmp_path, speed_answer):
    lists = [[8, 32, 128], [8, 64, 128], list(range(1000, 1100)), [*range(1000, 1099), 1099]]
    for sizes in [*lists, [1000, *range(1002, 1101)]]:
        save_answer(tmp_path, replace(speed_answer, batch_sizes=sizes))
    assert len(read_answers(tmp_path)[0]) == 4


def test_a_file_that_holds_no_answer_is_named_on_the_page(folder):
    (folder / "answers" / "memory-torn.json").write_text('{"question": "memory", "answered_at": ')
    (folder / "answers" / "memory-old.json").write_text('{"question": "memory", "answered_at": "", "max_batch": 3}')
    write_page(folder)
    page = (folder / "report.html").read_text()
    assert "memory-torn.json holds no answer" in page
    assert "memory-old.json holds no answer" in page


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_answers_is_refused_in_a_sentence(tmp_path, name):
    with pytest.raises(UsageError, match=r"Name .* that a legroom command wrote with --out"):
        api.report(tmp_path / name)


def test_a_folder_of_folders_is_answered_with_their_names(folder):
    with pytest.raises(UsageError, match=rf"There is no answer in .*, but in: .*{folder.name}"):
        api.report(folder.parent)


def test_report_prints_all_that_the_page_shows_as_json(folder, planted):
    ran = CliRunner().invoke(app, ["report", str(folder), "--json"])
    shown = json.loads(ran.stdout)
    assert [part["question"] for part in shown["sections"]] == list(planted)
    assert [figure for part in shown["sections"] for figure in part["section"]["figures"]] == embedded(folder)


@pytest.mark.parametrize(("words", "said"), [([], True), (["--quiet"], False), (["--json"], False)])
def test_commands_say_where_the_report_is_on_stderr_alone(tmp_path, monkeypatch, memory_answer, words, said):
    monkeypatch.setattr(ask, "memory", lambda *args, **named: memory_answer)
    (tmp_path / "report.html").touch()
    ran = CliRunner().invoke(app, ["memory", "--out", str(tmp_path), *words])
    assert ran.exit_code == 0, ran.output
    assert ("Wrote" in ran.stderr) is said
    assert "Wrote" not in ran.stdout
    if "--json" in words:
        assert json.loads(ran.stdout)["figures"][0]["name"] == "memory-peaks"


def test_quantities_read_well():
    assert [quantity(0.0123, "seconds"), quantity(95.0, "seconds"), quantity("12"), quantity(True)] == [
        "12.3 ms",
        "1 min 35 s",
        "12",
        "True",
    ]
