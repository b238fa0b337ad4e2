"""A worker: a process of its own that does one job after the other, so that it can be killed.

Messages in both directions are two lengths (head 4 bytes, body 8), a JSON head and a body. The server sends
``{"job", "kind", "view"}``, with a dropped file as the body, and ``{"cancel": job}``; the worker sends
``{"ready": true}`` once, ``{"job", "share"}`` on the way, and ``{"job", "ok"}`` with the answer, or a sentence, as the
body. When the server is gone, the worker ends.
"""

import json
import os
import queue
import struct
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO

_HEAD = struct.Struct("<IQ")
_REPORT_EVERY = 0.1  # seconds


class Cancelled(Exception):  # noqa: N818 - no error, and never seen by a user
    """The server no longer wants the job."""


def write(stream: BinaryIO, head: dict[str, Any], body: bytes = b"") -> None:
    """Send one message."""
    text = json.dumps(head).encode()
    stream.write(_HEAD.pack(len(text), len(body)) + text + body)
    stream.flush()


def read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Receive one message; None at the end."""
    lengths = stream.read(_HEAD.size)
    if len(lengths) < _HEAD.size:
        return None
    head, body = _HEAD.unpack(lengths)
    return json.loads(stream.read(head)), stream.read(body)


class _Desk:
    """What the thread that listens and the thread that works share."""

    def __init__(self, source: BinaryIO) -> None:
        self.jobs: queue.Queue[tuple[dict[str, Any], bytes]] = queue.Queue()
        self.cancelled: set[int] = set()
        self._source = source
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while (message := read(self._source)) is not None:
            head, body = message
            if "cancel" in head:
                self.cancelled.add(head["cancel"])
            else:
                self.jobs.put((head, body))
        os._exit(0)


def main() -> None:
    """Work until the server is gone. Arguments: the longest a job may take, then the server's file and its target."""
    seconds = float(sys.argv[1])
    out, source = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)  # whatever prints must not get between the messages
    os.environ["BIASFREE_QUIET"] = "1"
    desk = _Desk(source)
    bench = _bench(*sys.argv[2:])
    _warm_up(bench)
    write(out, {"ready": True})
    while True:
        job, body = desk.jobs.get()
        number = job["job"]
        try:
            answer, ok = bench.do(job["kind"], job["view"], _reporter(desk, out, number, seconds), body), True
        except Cancelled:
            answer, ok = b"cancelled", False
        except ValueError as error:
            answer, ok = str(error).encode(), False
        except KeyboardInterrupt:
            answer, ok = f"this took longer than {seconds:g} s and was ended. Ask for less of it.".encode(), False
        except Exception as error:  # a page gets a sentence, whatever went wrong
            traceback.print_exc()
            answer, ok = (
                f"this could not be computed ({type(error).__name__}). Change a setting and try again.".encode(),
                False,
            )
        desk.cancelled.discard(number)
        write(out, {"job": number, "ok": ok, "memory": _memory()}, answer)


def _bench(path: str = "", target: str = "") -> Any:
    from biasfree import datasets
    from biasfree.explorer._jobs import Bench

    if not path:
        return Bench()
    return Bench(datasets.load(path, target or None), path, target or None)


def _reporter(desk: _Desk, out: BinaryIO, number: int, seconds: float) -> Any:
    """A callback that says how far a job is, and ends it when it is not wanted or has taken too long."""
    began = last = time.monotonic()

    def report(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if number in desk.cancelled:
            raise Cancelled
        if now - began > seconds:
            raise KeyboardInterrupt  # what was integrated until then is kept, as after Ctrl-C
        if now - last > _REPORT_EVERY:
            last = now
            write(out, {"job": number, "share": share})

    return report


def _warm_up(bench: Any) -> None:
    """Compiled functions are loaded before somebody waits for them."""
    small = {"data": "six-points", "until": 60.0}
    for kind in ("run", "beside"):
        bench.do(kind, small, lambda share: None)


def _memory() -> int:
    """Bytes that this process holds, or held at most; 0 where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as pages:  # noqa: PTH123 - read in one go
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
