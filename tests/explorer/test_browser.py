"""The page in a real browser: every control does what it says, and the numbers are the package's own."""

import contextlib
import io
import json

import numpy as np
import pytest

import biasfree as bf
from biasfree.explorer import _gallery, _offline
from biasfree.explorer._code import code
from biasfree.explorer._jobs import Bench
from biasfree.explorer._view import View
from tests.explorer.browsing import Watch, browser, why_not
from tests.explorer.serving import server

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

# Theory, plateaus and diagnosis of the six points take least: the server computes them for every view that is open.
QUICK = "data=six-points&width=10&until=20&scale=0.01"


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def served():
    # Much time for each answer: what is late on a busy machine is not wrong.
    with server(workers=1, seconds=120) as found:
        yield found.wait_until_ready()


@pytest.fixture(scope="module")
def one_page(chromium, served):
    found = Watch(chromium, served.address)
    yield found
    found.close()


@pytest.fixture
def watch(one_page):
    """One page for all: to load it anew for every test would take most of the time."""
    yield one_page
    one_page.check()


def as_shown(value: float) -> str:
    """A number as the page prints it: six significant digits."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        shown = f"{value:#.6g}"
        return shown.rstrip(".")
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def computed(view: View) -> bf.Trajectory:
    """By the program that the page shows."""
    told: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code(view), told)
    return told["run"]


# Views that take seconds on a quiet machine are looked at by `make test-slow`.
_HEAVY = {"depth-separation", "slopes"}


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(i, id=prepared.id, marks=pytest.mark.slow if prepared.id in _HEAVY else ())
        for i, prepared in enumerate(_gallery.GALLERY)
    ],
)
def test_the_gallery_shows_the_packages_numbers(watch, number):
    prepared = _gallery.GALLERY[number]
    watch.open(QUICK)
    watch.page.keyboard.press(str(number + 1))
    watch.drawn()
    run = computed(View.of(prepared.view))
    assert watch.losses() == run.losses.tolist()
    shown = float(watch.page.evaluate("window.explorer.then((page) => page.run.arrays.times[page.index()])"))
    index = int(np.flatnonzero(run.times == shown)[0])
    assert watch.text("now-time") == as_shown(run.times[index])
    assert watch.text("now-loss") == as_shown(run.losses[index])
    assert watch.text("end-loss") == as_shown(run.losses[-1])
    assert watch.text("code").startswith(code(View.of(prepared.view)))
    assert prepared.description in watch.text("caption")


class TestControls:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("width", "7"), ("slope", "0.5"), ("scale", "1e-5"), ("until", "9"), ("weight_decay", "0.01"),
        ],
    )  # fmt: skip
    def test_numbers(self, watch, field, value):
        page = watch.open(QUICK)
        before = watch.losses()
        page.fill(f"#c-{field}-text", value)
        page.press(f"#c-{field}-text", "Enter")
        watch.drawn()
        assert watch.losses() != before
        assert f"{field}={value}" in code_of(page) or field in ("width", "scale")
        # The address follows when the controls have rested.
        page.wait_for_function("field => location.hash.includes(field + '=')", arg=field)

    def test_sliders_by_keyboard(self, watch):
        page = watch.open("data=six-points&width=10&until=20")
        before = watch.losses()
        page.focus("#c-offset")
        page.keyboard.press("ArrowRight")
        watch.drawn()
        assert watch.losses() != before
        assert page.input_value("#c-offset-text") == "0.16"
        assert "offset=0.16" in code_of(page)

    def test_ticks_choices_and_dice(self, watch):
        page = watch.open(QUICK)
        seen = [watch.losses()]

        def changed() -> None:
            watch.drawn()
            seen.append(watch.losses())
            assert seen[-1] != seen[-2]

        page.check("#c-mirrored")
        changed()
        assert "symmetrised" in code_of(page)
        page.check("#c-ones")
        changed()
        assert "with_ones" in code_of(page)
        page.select_option("#c-loss", "logistic")
        changed()
        page.click("[aria-label='another seed of the weights']")
        changed()
        page.select_option("#c-data", "orthogonal-pair")
        changed()
        assert "orthogonal pair" in watch.text("subtitle")
        # Last, since descent compiles for every shape.
        page.click("label:has(#c-method-descent)")
        changed()
        assert "gradient_descent" in code_of(page)
        assert page.is_visible("#c-rate")

    def test_axes_colours_and_events_change_the_picture_only(self, watch):
        page = watch.open(QUICK)
        before = watch.losses()
        flow_time = "flow time t (one unit: 1/η steps of descent at rate η)"
        titles = {"ratio": "t / ln(1/γ)", "log": flow_time, "rescaled": "rescaled time (1+α)t/2", "linear": flow_time}
        for axis, title in titles.items():
            page.select_option("#axis", axis)
            shown = "title => document.getElementById('plot').layout.xaxis.title.text === title"
            page.wait_for_function(shown, arg=title)
        page.select_option("#loss-axis", "log")
        page.check("#events")
        pictures = "document.getElementById('map').toDataURL() + document.getElementById('neurons').toDataURL()"
        for chosen in ("#map-scale", "now"), ("#arrow-scale", "linear"):
            before_it = page.evaluate(pictures)
            page.select_option(*chosen)
            page.wait_for_function(f"before => before !== {pictures}", arg=before_it)
        names = page.evaluate("document.getElementById('plot').data.map((trace) => trace.name)")
        assert "events" in names
        assert watch.losses() == before

    def test_a_bad_setting_is_told_on_the_page(self, watch):
        page = watch.open(QUICK)
        page.fill("#c-slope-text", "1.5")
        page.press("#c-slope-text", "Enter")
        page.wait_for_selector("body[data-state=failed]")
        assert "slope must lie in [0, 1], got 1.5" in watch.text("banner")
        page.fill("#c-slope-text", "0.5")
        page.press("#c-slope-text", "Enter")
        watch.drawn()
        assert page.is_hidden("#banner")
        # Chromium itself says on the console that an answer was a refusal.
        assert all("422" in each for each in watch.wrong)
        watch.wrong.clear()


def code_of(page) -> str:
    return page.inner_text("#code")


class TestPoints:
    def test_dragging_a_point_changes_the_curve(self, watch):
        page = watch.open("data=six-points&width=10&until=20")
        before = watch.losses()
        page.locator("#points").scroll_into_view_if_needed()
        box = page.locator("#points").bounding_box()
        half = page.evaluate("window.explorer.then((page) => page.points.half)")
        unit = box["height"] / (2 * half)
        x, y = box["x"] + box["width"] / 2 + unit, box["y"] + box["height"] / 2 - 0.15 * unit
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - 0.3 * unit, steps=4)
        page.mouse.up()
        page.wait_for_timeout(400)
        watch.drawn()
        assert watch.losses() != before
        moved = View.of(page.evaluate("window.explorer.then((page) => page.newest)"))
        assert moved.data == "points"
        assert moved.inputs[5][0] == pytest.approx(1, abs=0.02)
        assert moved.inputs[5][1] == pytest.approx(0.45, abs=0.03)
        assert watch.losses() == computed(moved).losses.tolist()

    def test_placing_relabelling_mirroring_and_removing_by_keyboard(self, watch):
        page = watch.open("data=points&points=1,0.5,1&width=5&until=5")
        page.focus("#points")

        def after(key: str) -> View:
            page.keyboard.press(key)
            watch.drawn()
            return View.of(page.evaluate("window.explorer.then((page) => page.newest)"))

        assert after("n").inputs == ((1.0, 0.5),)
        assert after("ArrowRight").inputs == ((1.01, 0.5),)
        assert after("l").targets == (-1.0,)
        mirrored = after("m")
        assert mirrored.inputs == ((1.01, 0.5), (-1.01, -0.5))
        assert mirrored.targets == (-1.0, 1.0)
        assert len(after("a").inputs) == 3
        assert len(after("Delete").inputs) == 2

    def test_a_file_is_opened(self, watch, tmp_path):
        path = tmp_path / "mine.csv"
        path.write_text("a,b,c,target\n1,0,2,1\n0,1,0,-1\n-1,0,1,1\n")
        page = watch.open(QUICK)
        page.set_input_files("input[type=file]", path)
        page.wait_for_selector("text=mine: 3 samples, 3 dimensions")
        watch.drawn()
        assert page.is_visible("#outputs")
        assert (
            watch.losses()
            == computed(View.of(page.evaluate("window.explorer.then((page) => page.newest)"))).losses.tolist()
        )


class TestTime:
    def test_scrubbing_by_mouse_keyboard_and_play(self, watch):
        page = watch.open(QUICK)
        frame = "window.explorer.then((page) => page.frame)"
        box = page.locator("#cursor").bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        at = page.evaluate(frame)
        maps = page.evaluate("document.getElementById('map').toDataURL()")
        page.keyboard.press("Home")
        assert page.evaluate(frame) == 0
        assert maps != page.evaluate("document.getElementById('map').toDataURL()")
        assert watch.text("now-time") == "0.00000"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        assert page.evaluate(frame) == 11 < at
        page.keyboard.press("Home")
        page.click("#play")
        page.wait_for_function(f"() => {frame.replace('page.frame', 'page.frame > 0')}")
        page.click("#play")
        assert page.evaluate(frame) > 0
        page.keyboard.press("End")
        assert watch.text("now-loss") == watch.text("end-loss")

    def test_panels_follow_at_thirty_frames_a_second_or_more(self, watch):
        page = watch.open(QUICK)
        # The time that drawing a frame takes, not what a busy machine leaves of it between.
        median = page.evaluate("""window.explorer.then((page) => {
          const spent = [];
          for (let i = 0; i < 60; i++) {
            const began = performance.now();
            page.go(i % page.run.arrays.frames.length);
            spent.push(performance.now() - began);
          }
          return spent.sort((a, b) => a - b)[30];
        })""")
        assert median < 1000 / 30


class TestLookingCloser:
    # Of the axis, once what was asked for is drawn.
    RANGE = "window.explorer.then((page) => page.redraw().then(() => page.curve.plot._fullLayout.xaxis.range))"

    def test_pointing_at_the_curves_tells_their_values(self, watch):
        page = watch.open(QUICK)
        box = page.locator("#cursor").bounding_box()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
        told = watch.text("hover")
        assert "ReLU network" in told
        run = computed(View.of(page.evaluate("window.explorer.then((page) => page.newest)")))
        # Under the pointer, which is at 0.6 of a canvas whose margins are 58 and 14 wide.
        time = 20 * (0.6 * box["width"] - 58) / (box["width"] - 72)
        assert as_shown(run.losses[np.abs(run.times - time).argmin()]) in told
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] - 200)
        assert page.is_hidden("#hover")

    def test_zooming_by_keys_mouse_and_buttons(self, watch):
        page = watch.open(QUICK + "&time=5")
        assert page.evaluate(self.RANGE) == [0, 20]
        losses = watch.losses()
        page.keyboard.press("+")
        low, high = page.evaluate(self.RANGE)
        assert high - low == pytest.approx(10)
        assert low < 5 < high
        page.wait_for_function("() => location.hash.includes('zoom=')")
        page.keyboard.press("End")  # what is shown follows the cursor
        assert page.evaluate(self.RANGE)[1] == 20
        page.click("#zoom-out")
        assert page.evaluate(self.RANGE) == [0, 20]
        box = page.locator("#cursor").bounding_box()
        at = lambda share: box["x"] + 58 + share * (box["width"] - 72)  # noqa: E731
        page.keyboard.down("Shift")
        page.mouse.move(at(0.25), box["y"] + 50)
        page.mouse.down()
        page.mouse.move(at(0.5), box["y"] + 90, steps=3)
        page.mouse.up()
        page.keyboard.up("Shift")
        assert page.evaluate(self.RANGE) == pytest.approx([5, 10], abs=0.05)
        page.mouse.dblclick(at(0.5), box["y"] + 90)
        assert page.evaluate(self.RANGE) == [0, 20]
        assert page.is_disabled("#zoom-all")
        assert watch.losses() == losses


class TestState:
    ADDRESSES = (
        QUICK + "&axis=log&time=5",
        "data=points&points=1,0.5,1;-0.3,1,-1;0.1,-0.7,0.5&name=three&width=9&until=8&slope=0.25&seed=5&loss=square",
        "data=linear-plus-sine&dim=3&pairs=6&data_seed=2&width=8&until=10&slopes=0,0.5&axis=rescaled&lossAxis=log",
    )

    @pytest.mark.parametrize(
        "address", [pytest.param(ADDRESSES[0], marks=pytest.mark.slow), ADDRESSES[1],
                    pytest.param(ADDRESSES[2], marks=pytest.mark.slow)], ids=["xor", "points", "gaussian"]
    )  # fmt: skip
    def test_an_address_opened_afresh_shows_identical_numbers(self, watch, chromium, served, address):
        watch.open(address)
        page = watch.complete()
        page.wait_for_timeout(300)
        again = Watch(chromium, served.address)
        try:
            again.open(page.url.split("#", 1)[1])
            again.complete()
            for id in ("now-time", "now-loss", "end-loss", "code", "subtitle", "theory", "diagnosis"):
                assert again.text(id) == watch.text(id)
            assert again.losses() == watch.losses()
            assert again.page.url == page.url
        finally:
            again.close()

    def test_back_to_an_older_address(self, watch):
        page = watch.open(QUICK)
        before = watch.losses()
        page.evaluate("location.hash = 'data=orthogonal-pair&width=5&until=5'")
        page.wait_for_selector("text=orthogonal pair: 2 samples")
        watch.drawn()
        page.evaluate(f"location.hash = '{QUICK}'")
        page.wait_for_selector("text=six points: 6 samples")
        watch.drawn()
        assert watch.losses() == before


class TestTakingAway:
    def saved(self, watch, kind: str):
        watch.page.click("#save-menu summary")
        with watch.page.expect_download() as found:
            watch.page.click(f"[data-save={kind}]")
        return found.value.path()

    def test_pictures_and_files(self, watch, tmp_path):
        watch.open(QUICK + "&time=5")
        watch.complete()
        self.the_program_computes_what_is_shown(watch)
        assert self.saved(watch, "png").read_bytes().startswith(b"\x89PNG")
        drawing = self.saved(watch, "svg").read_text()
        assert drawing.startswith("<svg")
        assert drawing.count("<image") == 2
        target = tmp_path / "run.nc"
        target.write_bytes(self.saved(watch, "netcdf").read_bytes())
        assert bf.Trajectory.load(target).losses.tolist() == watch.losses()
        assert self.saved(watch, "csv").read_text().startswith("time,loss,log_loss\n0.0,")

    def the_program_computes_what_is_shown(self, watch):
        told, printed = {}, io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(watch.text("code"), told)
        assert told["run"].losses.tolist() == watch.losses()
        now, data = told["now"], told["data"]
        loss = 0.5 * np.mean((now(data.inputs) - data.targets) ** 2)
        assert float(watch.text("now-loss")) == pytest.approx(loss, rel=1e-5)
        verdict, sentence = printed.getvalue().splitlines()[-1].split(": ", 1)
        assert watch.text("diagnosis") == f"{verdict}{sentence}."

    def test_one_file_works_from_disk_with_the_network_off(self, watch, chromium, tmp_path):
        watch.open(QUICK + "&time=5")
        watch.complete()
        path = tmp_path / "view.html"
        path.write_bytes(self.saved(watch, "html").read_bytes())
        alone = Watch(chromium, path.as_uri(), offline=True)
        page = alone.open()
        alone.complete()
        for id in ("now-time", "now-loss", "end-loss", "code", "theory", "diagnosis"):
            assert alone.text(id) == watch.text(id)
        page.keyboard.press("Home")
        assert alone.text("now-time") == "0.00000"
        assert page.is_disabled("#c-width")
        alone.close()

    def test_what_the_server_refused_is_told_in_the_file_too(self, chromium, tmp_path):
        view = {"data": "xor", "width": 10, "until": 2.0}
        refused = json.dumps({"error": "not today."}).encode()
        answers = dict.fromkeys(("beside", "plateaus", "diagnose"), refused)
        answers["run"] = Bench().do("run", view, lambda share: None)
        path = tmp_path / "view.html"
        path.write_bytes(_offline.one_file(view, {}, answers))
        alone = Watch(chromium, path.as_uri(), offline=True)
        alone.open()
        alone.complete()
        assert [alone.text(id) for id in ("theory", "plateau", "diagnosis")] == ["not today."] * 3
        assert alone.text("code").startswith(code(View.of(view)))
        alone.close()


class TestEverybody:
    @pytest.mark.parametrize("width", [400, 1000, 1920])
    def test_nothing_is_wider_than_the_screen(self, watch, width):
        page = watch.open(QUICK)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for id in ("plot", "map", "neurons", "points"):
            assert page.locator(f"#{id}").bounding_box()["width"] > 150
        page.set_viewport_size({"width": 1400, "height": 900})

    def test_every_control_has_a_name(self, watch):
        page = watch.open(QUICK)
        nameless = page.evaluate("""[
          ...document.querySelectorAll("button, input, select, canvas, summary")
        ].filter((element) =>
          !element.closest("[hidden]") && !element.hidden && element.getAttribute("aria-hidden") !== "true"
          && !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length)
        ).map((element) => element.outerHTML)""")
        assert nameless == []

    def test_it_can_be_used_by_keyboard_alone(self, watch):
        page = watch.open(QUICK)
        reached = set()
        for _ in range(80):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate(
                    "document.activeElement.id || document.activeElement.dataset?.id || document.activeElement.tagName"
                )
            )
        wanted = {"copy-link", "theme", "c-data", "points", "c-width", "c-slope", "c-scale", "c-seed", "c-until",
                  "axis", "play", "time", "map-scale", "copy-code", "six-points"}  # fmt: skip
        assert wanted <= reached

    def test_dark_mode_follows_the_system_and_the_button(self, watch):
        page = watch.open(QUICK)
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector("html[data-theme=dark]")
        assert page.evaluate(ground) != light
        page.click("#theme")
        assert page.evaluate(ground) == light
        assert page.evaluate("localStorage.getItem('theme')") == "light"
        page.evaluate("localStorage.clear()")
        page.emulate_media(color_scheme="light")


def test_progress_and_a_coarser_run_are_offered(watch):
    page = watch.open(QUICK)
    page.clock.install()
    page.evaluate("location.hash = 'data=depth-separation&pairs=200&depth=3&width=100&until=100000&rtol=1e-8'")
    page.wait_for_selector("#progress:not([hidden])")
    assert page.is_hidden("#coarser")
    page.clock.fast_forward(6000)
    page.wait_for_selector("#coarser:not([hidden])", timeout=40_000)
    asked = json.loads(page.evaluate("window.explorer.then((page) => JSON.stringify(page.state.view))"))
    page.click("#coarser")
    after = json.loads(page.evaluate("window.explorer.then((page) => JSON.stringify(page.state.view))"))
    assert after["width"] < asked["width"]
    assert after["rtol"] > asked["rtol"]
    page.evaluate(f"location.hash = '{QUICK}'")
    page.wait_for_selector("text=six points: 6 samples")
    watch.drawn()


def test_the_server_may_go_and_come_back(watch, served):
    """The last test: it ends the server of all others."""
    page = watch.open(QUICK)
    served.process.kill()
    served.process.wait()
    page.click("[aria-label='another seed of the weights']")
    page.wait_for_selector("#banner:not([hidden])")
    assert "does not answer" in watch.text("banner")
    with server(port=served.port, workers=1):
        watch.drawn()
        assert page.is_hidden("#banner")
        newest = View.of(page.evaluate("window.explorer.then((page) => page.newest)"))
        assert watch.losses() == computed(newest).losses.tolist()
        page.goto("about:blank")  # what it still asks for is not waited for
        # While there is no server, Chromium says so on the console.
        assert all("net::ERR_" in each or each == "asked about:blank" for each in watch.wrong), watch.wrong
        watch.wrong.clear()
