"""Planted answers to every question, and a folder that holds them all."""

import os
import shutil

import pytest

from legroom import api
from legroom.job_address import JobAddress
from legroom.questions.base import Recommendation
from legroom.questions.loading.answer import LoadingAnswer
from legroom.questions.speed.answer import SpeedAnswer
from legroom.reports.page import Page, PageSection, render_page, write_page
from legroom.reports.saved_answers import save_answer
from legroom.reports.views import views
from legroom.testing import FakeMachine, FakeVariants, plant_host

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NASTY = "</script><b>bold</b>"
CIRCUMSTANCES = {"job": NASTY, "machine": "planted, 4 cores, Planted GPU", "seconds": 12.5}
SETTINGS = {"batch_size": 32, "num_workers": 2}


def found(name, value):
    return Recommendation(name=name, value=value, range=None, because="planted")


@pytest.fixture(scope="session")
def asked_in(tmp_path_factory):
    """Where the planted answers, which no test changes, are asked for once."""
    return tmp_path_factory.mktemp("asked")


@pytest.fixture(scope="session")
def memory_answer(asked_in):
    """Of a machine where a sample takes 3 MB above 200 MB."""
    run = api.Run(out=asked_in / "memory", engine=FakeMachine(bytes_per_sample=3e6, fixed_bytes=200e6))
    return api.memory(JobAddress(text=NASTY), device="cpu", memory="2GB", run=run)


@pytest.fixture(scope="session")
def train_answer(asked_in):
    """Of a run of 100 updates."""
    run = api.Run(out=asked_in / "train", engine=FakeMachine())
    return api.train(JobAddress(text=NASTY), device="cpu", run=run, num_steps=100)


@pytest.fixture(scope="session")
def rate_answer(asked_in):
    """Of a learner whose best rate is 0.1."""
    run = api.Run(out=asked_in / "rate", engine=FakeMachine())
    return api.rate(JobAddress(text=NASTY), device="cpu", target="loss=0.12", run=run)


@pytest.fixture(scope="session")
def size_answer(asked_in):
    """Of planted trials."""
    run = api.Run(out=asked_in / "size", engine=FakeMachine())
    return api.size(JobAddress(text=NASTY), device="cpu", seeds=1, run=run)


@pytest.fixture(scope="session")
def variants_answer(asked_in):
    """Of a machine on which bf16 is twice as fast and spoils what is learned."""
    fake = FakeVariants(ratios={"bf16": 2.0, "fused": 1.2}, diverges=("bf16",))
    run = api.Run(out=asked_in / "variants", engine=FakeMachine(fake))
    return api.variants(JobAddress(text=NASTY), device="cpu", run=run)


@pytest.fixture(scope="session")
def plan_answer(asked_in):
    """With a batch that was measured and settings that were not."""
    return api.plan(JobAddress(text=NASTY), device="cpu", run=api.Run(out=asked_in / "plan", engine=FakeMachine()))


@pytest.fixture(scope="session")
def speed_answer():
    """Of a device whose step takes 10 ms and 1 ms more for each sample."""
    times = {size: 0.01 + 0.001 * size for size in (1, 8, 64, 512)}
    return SpeedAnswer(
        **CIRCUMSTANCES,
        recommendations=[found("knee_batch_size", 64)],
        device="cuda",
        precision="fp32",
        rule="throughput",
        share=0.9,
        knee_batch_size=64,
        range=(64, 64),
        best_batch_size=512,
        best_samples_per_second=512 / times[512],
        largest_batch_size=512,
        largest_because="planted",
        points=[speed_point(size, seconds) for size, seconds in times.items()],
        predictions=[
            {
                "batch_size": size,
                "seconds": seconds,
                "interval": [seconds, seconds],
                "samples_per_second": size / seconds,
            }
            for size, seconds in times.items()
        ],
        law={"sizes": [1, 8, 64, 512], "mean_error": None, "worst_error": None, "floor_seconds": 0.01, "bend": 10.0},
        flops_per_sample=None,
        peak_flops_per_second=None,
        padding=None,
        num_samples=None,
        settings=SETTINGS,
        baseline=SETTINGS,
    )


def speed_point(size, seconds):
    return {
        "batch_size": size,
        "median_seconds": seconds,
        "spread": 0.01,
        "samples_per_second": size / seconds,
        "utilisation": size / 600,
        "memory_utilisation": None,
        "peak_share": None,
        "shares": {"forward": 0.3, "backward": 0.6, "update": 0.1},
        "peak_bytes": 1000 * size,
    }


@pytest.fixture(scope="session")
def loading_answer():
    """Of workers that load 100 samples/s each, and a device that eats 350."""
    return LoadingAnswer(
        **CIRCUMSTANCES,
        recommendations=[found("num_workers", 4)],
        device="cuda",
        batch_size=32,
        num_devices=1,
        num_workers=4,
        prefetch_factor=2,
        pin_memory=True,
        persistent_workers=True,
        range=(4, 8),
        samples_per_second=350.0,
        device_samples_per_second=350.0,
        is_fed=True,
        bound_by="compute",
        shares={"compute": 0.8, "preparation": 0.1, "storage": 0.1},
        max_workers_by_memory=16,
        workers_by_memory=[{"batch_size": 32, "max_workers": 16}, {"batch_size": 64, "max_workers": 12}],
        worker_bytes=2**30,
        shared_bytes=4 * 2 * 32 * 2**20,
        batch_bytes=32 * 2**20,
        batch_seconds={"step": 0.09, "copy": 0.001},
        read_bytes_per_sample=1e6,
        storage_bytes_per_second=1e8,
        law={"rate": 100.0, "contention": 0.0, "coherence": 0.0},
        points=[loading_point(workers) for workers in (0, 1, 2, 4, 8)],
        settings=SETTINGS,
        baseline=SETTINGS,
    )


def loading_point(workers):
    rate = min(350.0, 100.0 * max(1, workers))
    return {
        "num_workers": workers,
        "prefetch_factor": 2,
        "pin_memory": True,
        "blas_threads": 1,
        "samples_per_second": rate,
        "median_seconds": 32 / rate,
        "spread": 0.02,
        "num_repeats": 9,
        "wait_seconds": 0.0,
    }


@pytest.fixture(scope="session")
def sweep_answer(asked_in):
    """Of three batch sizes at two rates."""
    run = api.Run(out=asked_in / "sweep", engine=FakeMachine(num_samples=1000))
    return api.sweep(JobAddress(text=NASTY), device="cpu", batch_sizes=(8, 16, 32), rates=(0.01, 0.1), run=run)


@pytest.fixture(scope="session")
def devices_answer(asked_in):
    """Of four devices on a ring."""
    engine = FakeMachine(num_samples=60_000)
    run = api.Run(out=asked_in / "devices", engine=engine, host=plant_host(num_cores=4))
    return api.devices(JobAddress(text=NASTY), device="cpu", batch_size=64, run=run)


@pytest.fixture(scope="session")
def prove_answer(asked_in):
    """Of a plan whose batch is twice the job's own."""
    path = asked_in / "planted.toml"
    path.write_text(f'job = "{NASTY}"\ntarget = "loss=0.5"\n[batch_size]\nvalue = 64\n[num_steps]\nvalue = 100\n')
    run = api.Run(out=asked_in / "prove", engine=FakeMachine(), host=plant_host())
    return api.prove(JobAddress(text=NASTY), device="cpu", plan=path, run=run)


@pytest.fixture(scope="session")
def check_answer(asked_in):
    """Of a plan whose batch still fits."""
    path = asked_in / "planted.toml"
    path.write_text(f'job = "{NASTY}"\n[batch_size]\nvalue = 64\n')
    run = api.Run(out=asked_in / "check", engine=FakeMachine(), host=plant_host())
    return api.check(path, job=JobAddress(text=NASTY), device="cpu", run=run)


@pytest.fixture(scope="session")
def planted(request, asked_in):
    """An answer to every question that has a section, by its name, in the page's order: one without a fixture here is
    asked without words, of a machine whose fakes are as they are without words."""

    def answer(name):
        if f"{name}_answer" in globals():
            return request.getfixturevalue(f"{name}_answer")
        run = api.Run(out=asked_in / name, engine=FakeMachine(), host=plant_host())
        return getattr(api, name)(JobAddress(text=NASTY), device="cpu", run=run)

    return {name: answer(name) for name, view in views().items() if view.section}


@pytest.fixture(scope="session")
def answers(planted):
    """The answers alone."""
    return list(planted.values())


@pytest.fixture(scope="session")
def written(asked_in, answers):
    """A folder that knows every answer, with its page."""
    kept = asked_in / "kept"
    kept.mkdir()
    for answer in answers:
        save_answer(kept, answer)
    write_page(kept)
    return kept


@pytest.fixture
def folder(tmp_path, written):
    """The same, for a test to do with as it likes."""
    return shutil.copytree(written, tmp_path / "kept")


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, with a new and empty profile."""
    if not os.path.exists(CHROMIUM):
        reason = "there is no chromium here; make browser installs Debian's"
        if os.environ.get("LEGROOM_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


def open_in(context, path):
    """The page and what is wrong with it: console messages, errors, requests to elsewhere."""
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda asked: said.append(asked.url) if asked.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=180_000)
    return page, said


@pytest.fixture
def open_page(browser):
    """Opens a file in a window of its own."""
    contexts = []

    def open_it(path, scheme="light", width=1000):
        contexts.append(browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}))
        return open_in(contexts[-1], path)

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def open_once(browser):
    """Opens a file for all tests of a module: reading the page's script takes seconds on a busy machine."""
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    yield lambda path: open_in(context, path)
    context.close()


@pytest.fixture(scope="module")
def open_section(open_once, tmp_path_factory):
    """Opens a page of one planted section, for all tests of a module."""

    def open_it(section):
        path, parts = tmp_path_factory.mktemp("page") / "report.html", [PageSection(question="plan", section=section)]
        path.write_text(render_page(Page(job="planted", name="planted", sections=parts, notes=[])))
        return open_once(path)

    return open_it


@pytest.fixture
def few(tmp_path, memory_answer, speed_answer, loading_answer):
    """A folder with some answers: a page of all of them takes long to draw on a busy machine."""
    kept = tmp_path / "few"
    kept.mkdir()
    for answer in (memory_answer, speed_answer, loading_answer):
        save_answer(kept, answer)
    write_page(kept)
    return kept
