"""A server of the tests' own, in a process of its own, and plain requests to it."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).parents[2] / "src"
_START = "from biasfree.explorer import serve; import sys; serve({file!r}, {port}, browser=False, workers={workers}, seconds={seconds}, say=lambda text: print(text, flush=True))"  # noqa: E501


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def error(self) -> str:
        """The sentence of a refusal."""
        return json.loads(self.body)["error"]


class Served(NamedTuple):
    process: subprocess.Popen[str]
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 120
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, content, headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
        finally:
            connection.close()

    def do(self, kind: str, view: dict[str, Any], page: str = "tests", timeout: float = 120) -> Reply:
        return self.ask("POST", f"/api/{kind}", {"page": page, "view": view}, timeout=timeout)

    def alive(self) -> dict[str, Any]:
        return json.loads(self.ask("GET", "/api/alive").body)

    def wait_until_ready(self, seconds: float = 180) -> "Served":
        wait_for(lambda: all(part["ready"] == part["workers"] for part in self._parts()), seconds, "workers are ready")
        return self

    def _parts(self) -> list[dict[str, int]]:
        try:
            found = self.alive()
        except OSError:
            return [{"ready": 0, "workers": 1}]
        return [found["runs"], found["answers"]]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


def wait_for(true: Any, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain until {what}"
        time.sleep(0.1)


def started(command: list[str]) -> Served:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path[:1]]), "BIASFREE_QUIET": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found, line
    return Served(process, int(found.group(1)))


@contextlib.contextmanager
def server(port: int = 0, workers: int = 1, seconds: float = 30.0, file: tuple[str, ...] = ()) -> Iterator[Served]:
    script = _START.format(port=port, workers=workers, seconds=seconds, file=file)
    served = started([sys.executable, "-c", script])
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.process.communicate()
