"""The server answers what it should, refuses the rest with a sentence, and outlives what its pages do."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import biasfree as bf
from biasfree.explorer import _guard, _view
from biasfree.explorer._packing import unpacked
from tests.explorer.serving import Served, server, started, wait_for

SMALL = {"width": 6, "until": 3.0}
# Minutes of work: three layers, many samples, a tight tolerance and a late end.
ENDLESS = {"data": "depth-separation", "pairs": 500, "depth": 3, "width": 150, "until": 1e6, "rtol": 1e-8}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The command itself, with a file; the last test but slow ones ends it."""
    path = tmp_path_factory.mktemp("served") / "mine.csv"
    path.write_text("a,b,price\n1,2,3\n-1,-2,-3\n2,0,1\n")
    words = ["explore", str(path), "--target", "price", "--no-browser", "--port", "0"]
    found = started([sys.executable, "-c", "from biasfree.cli import main; main()", *words])
    try:
        yield found.wait_until_ready()
    finally:
        found.process.kill()
        found.process.communicate()


class TestAnswers:
    def test_the_page_and_all_its_parts(self, served):
        page = served.ask("GET", "/")
        assert page.status == 200
        assert b"biasfree" in page.body
        for name in ("main.js", "style.css", "icon.svg"):
            assert served.ask("GET", f"/page/{name}").status == 200
        plotly = served.ask("GET", "/plotly.js")
        assert b"Plotly" in plotly.body or b"plotly" in plotly.body
        again = served.ask("GET", "/plotly.js", headers={"If-None-Match": plotly.headers["etag"]})
        assert (again.status, again.body) == (304, b"")

    def test_a_run_is_the_packages_own(self, served):
        head, arrays = unpacked(served.do("run", {"data": "xor", **SMALL}).body)
        run = bf.gradient_flow(bf.Network.init([2, 6, 1], 0.0, 1e-3, 0), bf.datasets.xor(), until=3.0)
        assert np.array_equal(arrays["losses"], run.losses)
        assert head["summary"]["status"] == "reached"

    def test_what_comes_beside_it(self, served):
        view = {"data": "xor", "slopes": [0.5], **SMALL}
        head, arrays = unpacked(served.do("beside", view).body)
        assert [curve["slope"] for curve in head["curves"]] == [1.0, 0.5]
        start = bf.Network.init([2, 6, 1], 1.0, 1e-3, 0)
        twin = bf.gradient_flow(start, bf.datasets.xor(), until=3.0)
        assert np.array_equal(arrays["curve0_losses"], twin.losses)

    def test_the_diagnosis_is_the_packages_own(self, served):
        found = json.loads(served.do("diagnose", {"data": "six-points", "width": 20, "seed": 5}).body)
        own = bf.diagnose(bf.datasets.six_points(), width=20, seeds=1, first_seed=5, simulate=False)
        assert found["headline"] == own.headline

    def test_files_to_take_away(self, served, tmp_path):
        view = {"data": "orthogonal-pair", **SMALL}
        path = tmp_path / "run.nc"
        path.write_bytes(served.do("netcdf", view).body)
        run = bf.Trajectory.load(path)
        table = np.genfromtxt(served.do("csv", view).body.decode().splitlines(), delimiter=",", names=True)
        assert np.array_equal(table["loss"], run.losses)
        assert np.array_equal(table["time"], run.times)

    def test_one_file_that_asks_nobody(self, served):
        page = served.ask("POST", "/api/html", {"page": "tests", "view": {"data": "six-points", **SMALL}, "shown": {}})
        text = page.body.decode()
        assert page.status == 200
        assert 'src="' not in text.split('id="stored"')[0].split("</script>")[-1]
        assert "connect-src 'none'" in text

    def test_a_dropped_file_is_read_like_any_other(self, served):
        good = served.ask("POST", "/api/data?name=mine.csv", b"a,b,target\n1,2,3\n-4,5,-6\n")
        assert json.loads(good.body) == {"name": "mine", "inputs": [[1.0, 2.0], [-4.0, 5.0]], "targets": [3.0, -6.0]}
        for body, name, said in (
            (b"a,b\n1,2\n", "mine.csv", "no column 'target' in mine.csv"),
            (b"a,target\nx,1\n", "mine.csv", "not numeric"),
            (b"PK\x03\x04rubbish", "mine.npz", "not a whole archive"),
            (b"1", "mine.exe", "must end in"),
            (b"a,target\n" + b"1,1\n" * 5000, "mine.csv", "at most 4,000 samples"),
        ):
            refused = served.ask("POST", f"/api/data?name={name}", body)
            assert refused.status == 422
            assert said in refused.error


class TestRefusals:
    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}", ""])
    def test_other_hosts(self, served, host):
        answer = served.ask("GET", "/api/alive", headers={"Host": host.format(port=served.port)})
        assert answer.status == 403
        assert "127.0.0.1 and localhost only" in answer.error

    def test_its_own_names(self, served):
        for host in ("127.0.0.1", "localhost", "[::1]"):
            assert served.ask("GET", "/api/alive", headers={"Host": f"{host}:{served.port}"}).status == 200

    @pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"},
                                         {"Sec-Fetch-Site": "cross-site"}])  # fmt: skip
    def test_pages_of_another_origin(self, served, headers):
        answer = served.ask("POST", "/api/run", {"page": "a", "view": {}}, headers=headers)
        assert answer.status == 403
        assert "another origin" in answer.error

    def test_it_listens_on_loopback_only(self, served):
        connections = psutil.Process(served.process.pid).net_connections()
        listening = {connection.laddr.ip for connection in connections if connection.status == "LISTEN"}
        assert listening == {"127.0.0.1"}

    def test_large_bodies(self, served):
        answer = served.ask("POST", "/api/run", b" " * (_guard.LARGEST_BODY + 1))
        assert answer.status == 413
        # One that does not say how long it is.
        with socket.create_connection(("127.0.0.1", served.port)) as raw:
            host = f"Host: 127.0.0.1:{served.port}"
            raw.sendall(f"POST /api/run HTTP/1.1\r\n{host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            with contextlib.suppress(OSError):
                for _ in range(_guard.LARGEST_BODY // 65536 + 2):
                    raw.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            raw.settimeout(10)
            assert b" 413 " in raw.recv(200)

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (b"", "must be JSON"),
            (b"{", "must be JSON"),
            (b"\xff\xfe", "must be JSON"),
            (b"[" * 100_000, "must be JSON"),
            (b'{"page": "a", "view": {"slope": NaN}}', "must be JSON"),
            (b'{"page": "a"}', "with `page` and `view`"),
            (b'{"page": "a b", "view": {}}', "letters, digits"),
            (b'{"page": "a", "view": []}', "must be a JSON object"),
            (b'{"page": "a", "view": {"width": -1}}', "width must be"),
            (b'{"page": "a", "view": {"width": 1e999}}', "width must be"),
        ],
    )
    def test_bad_bodies(self, served, body, said):
        answer = served.ask("POST", "/api/run", body)
        assert answer.status == 422
        assert said in answer.error

    def test_no_such_address(self, served):
        for method, path in (("GET", "/nothing"), ("POST", "/api/nothing"), ("GET", "/page/../_server.py"),
                             ("GET", "/page/%2e%2e%2f_server.py"), ("DELETE", "/api/run")):  # fmt: skip
            answer = served.ask(method, path, {"page": "a", "view": {}} if method == "POST" else None)
            assert answer.status in (404, 405)
            assert answer.error

    def test_every_answer_carries_the_policy(self, served):
        for path in ("/", "/nothing", "/api/alive"):
            headers = served.ask("GET", path).headers
            assert "default-src 'self'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"


def _open_run(served: Served, page: str) -> socket.socket:
    """A run that is asked for and not waited for."""
    body = json.dumps({"page": page, "view": ENDLESS}).encode()
    raw = socket.create_connection(("127.0.0.1", served.port))
    head = f"POST /api/run HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: {len(body)}\r\n\r\n"
    raw.sendall(head.encode() + body)
    return raw


class TestRunaways:
    def test_one_neither_blocks_others_nor_outlives_its_page(self, served):
        raw = _open_run(served, "runaway")
        wait_for(lambda: served.alive()["runs"]["running"] == 1, 20, "the endless run runs")
        standing = json.loads(served.ask("GET", "/api/progress?page=runaway&kind=run").body)
        assert standing["state"] == "running"
        assert served.do("run", {"data": "xor", **SMALL}).status == 200
        raw.close()
        wait_for(lambda: served.alive()["runs"]["running"] == 0, 10, "the run of a page that has gone has ended")
        served.wait_until_ready()

    def test_the_newest_question_of_a_page_wins(self, served):
        answers = []
        older = threading.Thread(target=lambda: answers.append(served.do("run", ENDLESS, page="same")))
        older.start()
        wait_for(lambda: served.alive()["runs"]["running"] == 1, 20, "the older run runs")
        assert served.do("run", {"data": "xor", **SMALL}, page="same").status == 200
        older.join(20)
        assert [answer.status for answer in answers] == [409]
        assert "newer request" in answers[0].error
        wait_for(lambda: served.alive()["runs"]["running"] == 0, 10, "the older run has ended")
        served.wait_until_ready()

    def test_a_run_has_its_time_and_a_server_its_file_or_none(self):
        with server(workers=1, seconds=1.0) as hurried:
            refused = hurried.do("run", {"data": "file"})
            assert refused.status == 422
            assert "without a data file" in refused.error
            answer = hurried.do("run", {**ENDLESS, "data": "six-points", "depth": 2, "method": "descent", "rate": 1e-6,
                                        "until": 9.0, "width": 1000})  # fmt: skip
            head, arrays = unpacked(answer.body)
            assert head["summary"]["status"] == "interrupted"
            assert 0 < arrays["times"][-1] < 9.0

    def test_a_worker_that_dies_is_replaced(self, served):
        process = psutil.Process(served.process.pid)
        before = {child.pid for child in process.children()}
        os.kill(min(before), signal.SIGKILL)
        wait_for(lambda: len({child.pid for child in process.children()} - before) == 1, 20, "another is started")
        served.wait_until_ready()
        assert served.do("run", {"data": "xor", **SMALL}).status == 200

    def test_workers_end_with_the_server(self):
        with server() as short:
            children = psutil.Process(short.process.pid).children()
            short.process.kill()
            short.process.wait()
            _, left = psutil.wait_procs(children, timeout=20)
            assert not left


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["nothing.csv"], "no file at nothing.csv"),
            (["six-pionts"], "Did you mean 'six-points'"),
            (["--port", "70000"], "port must lie between 0 and 65535"),
            (["xor", "--target", "y"], "--target names a column of a file"),
        ],
    )
    def test_bad_use_gets_a_sentence(self, arguments, said, capsys, monkeypatch):
        from biasfree.cli import main

        monkeypatch.setattr("sys.argv", ["biasfree", "explore", "--no-browser", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert said in capsys.readouterr().err

    def test_a_port_that_is_taken(self, served, capsys, monkeypatch):
        from biasfree.cli import main

        monkeypatch.setattr("sys.argv", ["biasfree", "explore", "--no-browser", "--port", str(served.port)])
        with pytest.raises(SystemExit):
            main()
        assert f"port {served.port} is taken" in capsys.readouterr().err


# Requests of all kinds, most of them wrong; those that are right are small.

_numbers = st.integers() | st.floats() | st.sampled_from([0, 1, 2, 3, 1e-100, 1e300, -1, 0.5])
_anything = st.none() | st.booleans() | _numbers | st.text(max_size=12) | st.lists(_numbers, max_size=3)
_right = {
    "data": st.sampled_from([*_view.GENERATORS, *_view.OWN]),
    "offset": st.none() | st.floats(-2, 2),
    "dim": st.none() | st.integers(1, 5),
    "pairs": st.none() | st.integers(1, 12),
    "inputs": st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), max_size=5),
    "targets": st.lists(st.floats(-5, 5), max_size=5),
    "width": st.integers(1, 6),
    "slope": st.floats(0, 1),
    "scale": st.floats(1e-100, 1),
    "seed": st.integers(0, 5),
    "loss": st.sampled_from(_view.LOSSES),
    "mirrored": st.booleans(),
    "ones": st.booleans(),
}
# The end and the depth are always small, so that ten thousand of them take minutes and not days.
_views = st.fixed_dictionaries(
    {"until": st.sampled_from([0.5, 1.0]), "width": st.sampled_from([2, 3]), "dim": st.sampled_from([1, 2]),
     "pairs": st.sampled_from([2, 3])},
    optional={name: right | _anything for name, right in _right.items() if name not in ("dim", "pairs", "width")},
)  # fmt: skip
_bodies = (
    st.builds(lambda view: json.dumps({"page": "fuzz", "view": view}).encode(), _views)
    | st.builds(lambda view: json.dumps({"page": "fuzz", "view": view}).encode(), _anything)
    | st.builds(lambda value: json.dumps(value).encode(), st.dictionaries(st.text(max_size=5), _anything, max_size=3))
    | st.binary(max_size=60)
)
_paths = st.sampled_from(
    ["/api/run", "/api/run", "/api/run", "/api/beside", "/api/csv", "/api/data?name=a.csv", "/api/data?name=b.npz",
     "/api/html", "/api/progress?page=fuzz", "/api/progress?kind=x", "/", "/page/main.js", "/page/%00"]
) | st.builds("/api/{}".format, st.text("abc/.%?&=0123", max_size=8))  # fmt: skip
_methods = st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS"])


def _fuzz(served: Served, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(_methods, _paths, _bodies)
    def fuzzed(method, path, body):
        answer = served.ask(method, path, body)
        assert answer.status < 500, (method, path, body, answer)
        if answer.status >= 400 and answer.body:
            assert answer.error
            assert "Traceback" not in answer.error

    fuzzed()
    assert served.do("run", {"data": "xor", **SMALL}, page="after").status == 200


def test_fuzzed_requests_get_no_server_error(served):
    _fuzz(served, 150)


@pytest.mark.slow
def test_ten_thousand_fuzzed_requests():
    with server(workers=2) as served:
        served.wait_until_ready()
        before = _memory(served)
        _fuzz(served, 10_000)
        served.wait_until_ready()
        after = _memory(served)
        print(f"memory {before} -> {after}")
        assert all(after[name] < 1.5 * before[name] for name in before)


def _memory(served: Served) -> dict[str, int]:
    process = psutil.Process(served.process.pid)
    return {"server": process.memory_info().rss, "workers": sum(c.memory_info().rss for c in process.children())}


def _moved(served: Served, clients: int, seconds: float) -> list[int]:
    """Clients that move a slider: a new question every quarter of a second or so, answered or not."""
    statuses: list[int] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        while time.monotonic() < end:
            view = {"data": "six-points", "offset": round(float(rng.uniform(0, 0.5)), 3), "width": 20, "until": 20.0}
            # Half of them go away before the answer is there.
            patience = 120.0 if rng.random() < 0.5 else float(rng.uniform(0.1, 1.0))
            with contextlib.suppress(TimeoutError):
                statuses.append(served.do("run", view, page=f"page{number}", timeout=patience).status)
            time.sleep(rng.uniform(0.1, 0.4))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def test_some_clients_that_move_sliders(served):
    statuses = _moved(served, clients=12, seconds=2)
    assert set(statuses) <= {200, 409, 429}
    assert statuses.count(200) >= 5
    wait_for(lambda: served.alive()["runs"]["waiting"] == 0, 20, "nothing waits any more")


def test_control_c_ends_it_cleanly(served):
    """The last of those that share a server."""
    choices = json.loads(served.ask("GET", "/api/choices").body)
    assert choices["file"] == {"name": "mine.csv"}
    head, _ = unpacked(served.do("run", {"data": "file", **SMALL}).body)
    assert head["data"]["description"] == "mine: 3 samples, 2 dimensions"
    assert "load('" in head["code"]
    assert served.stop() == 0
    assert served.process.stdout is not None
    assert served.process.stdout.read() == ""


@pytest.mark.slow
def test_two_hundred_clients_that_move_sliders_for_a_minute():
    with server(workers=2) as served:
        served.wait_until_ready()
        before = _memory(served)
        statuses = _moved(served, clients=200, seconds=60)
        after = _memory(served)
        print(f"{len(statuses)} answers, {statuses.count(200)} runs, memory {before} -> {after}")
        assert set(statuses) <= {200, 409, 429}
        assert all(after[name] < 1.5 * before[name] for name in before)
        assert served.do("run", {"data": "xor", **SMALL}).status == 200
