"""Worker processes behind the server: one job each at a time, the newest of a page first, and an end to all of them.

A page has at most one job of a kind: a newer one takes the older one's place, whether that waits or runs. A job that is
no longer wanted is asked to end, and does so at its next report of progress; a worker that does not answer soon is
killed and another started in its place. So one runaway run neither blocks others nor outlives its page.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_HEAD = struct.Struct("<IQ")
_LARGEST_ANSWER = 2**28
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
MOST_WAITING = 512


class Refused(Exception):  # noqa: N818 - an answer to a page, no failure of the server
    """A job that is not done: an HTTP status below 500, and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        """The status and the sentence that the page receives."""
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(eq=False)
class Job:
    """One request for work."""

    number: int
    page: str
    kind: str
    view: Any
    answer: asyncio.Future[bytes]
    content: bytes = b""
    began: float | None = None
    share: float = 0.0
    worker: "Worker | None" = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def end(self) -> None:
        """No worker does it any more; a timer would keep it, and its answer, in memory."""
        self.worker = None
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def refuse(self, status: int, sentence: str) -> None:
        """Answer it with a sentence, unless it was answered."""
        if not self.answer.done():
            self.answer.set_exception(Refused(status, sentence))
            # A page that has gone does not look at its answer.
            self.answer.exception()


@dataclass(eq=False)
class Worker:
    """A process, and the job it does."""

    process: asyncio.subprocess.Process
    ready: bool = False
    job: Job | None = None
    last_view: str = ""
    memory: int = 0
    watch: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether it can be given a job."""
        return self.ready and self.job is None

    def kill(self) -> None:
        """End it at once; unlike ``Process.kill`` this leaves it to asyncio to see that it has ended."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, _KILL)


class Pool:
    """So many workers, and the jobs that wait for one."""

    def __init__(
        self,
        workers: int,
        seconds: float,
        file: Sequence[str] = (),
        *,
        grace: float = 3.0,
        limits: Mapping[str, float] | None = None,
        most_memory: int = 800_000_000,
    ) -> None:
        """Nothing starts yet.

        Args:
            workers: how many processes.
            seconds: the longest that a job may run; what it has until then is its answer.
            file: path and target of the server's own file.
            grace: seconds that a worker has to end a job that is not wanted, or that has had its time. Another worker
                takes several seconds to start, so not too few.
            limits: seconds for kinds of jobs that do not keep the time themselves; their workers are killed then.
            most_memory: bytes; a worker that holds more is replaced when it is idle.
        """
        self._count, self._seconds, self._file = workers, seconds, tuple(file)
        self._grace, self._most_memory, self._limits = grace, most_memory, dict(limits or {})
        self._workers: list[Worker] = []
        self._waiting: list[Job] = []
        self._current: dict[tuple[str, str], Job] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    # Life

    async def start(self) -> None:
        """Start the processes; they are ready a few seconds later."""
        for _ in range(self._count):
            await self._hire()

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        for job in list(self._current.values()):
            job.refuse(410, "the server is closing.")
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.kill()
        for worker in workers:
            await worker.process.wait()
            if worker.watch is not None:
                worker.watch.cancel()
                await asyncio.gather(worker.watch, return_exceptions=True)

    async def _hire(self) -> None:
        arguments = ["-m", "biasfree.explorer._worker", str(self._seconds), *self._file]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=None if os.environ.get("BIASFREE_EXPLORER_LOG") else asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is the server's to answer
        )  # fmt: skip
        worker = Worker(process)
        self._workers.append(worker)
        worker.watch = asyncio.create_task(self._listen(worker))

    # Jobs

    def submit(self, page: str, kind: str, view: Any, content: bytes = b"") -> Job:
        """Take a job; an older one of the same page and kind is dropped.

        Raises:
            Refused: too many wait.
        """
        older = self._current.get((page, kind))
        if older is not None:
            self.drop(older, "a newer request of this page took its place.")
        if len(self._waiting) >= MOST_WAITING:
            raise Refused(429, f"{MOST_WAITING} requests wait already. Try again in a moment.")
        job = Job(next(self._numbers), page, kind, view, asyncio.get_running_loop().create_future(), content)
        self._current[page, kind] = job
        self._waiting.append(job)
        self._assign()
        return job

    def drop(self, job: Job, why: str) -> None:
        """End a job that is no longer wanted."""
        job.refuse(409, why)
        self._forget(job)
        if job in self._waiting:
            self._waiting.remove(job)
        elif job.worker is not None and job.worker.job is job:
            self._send(job.worker, {"cancel": job.number})
            self._kill_later(job, self._grace)

    def standing(self, page: str, kind: str) -> dict[str, Any]:
        """How far a page's job is."""
        job = self._current.get((page, kind))
        if job is None:
            return {"state": "none"}
        if job.began is None:
            warming = not any(worker.ready for worker in self._workers)
            ahead = self._waiting.index(job) if job in self._waiting else 0
            return {"state": "starting" if warming else "waiting", "ahead": ahead}
        return {"state": "running", "seconds": time.monotonic() - job.began, "share": job.share}

    def counts(self) -> dict[str, int]:
        """How busy it is."""
        return {
            "workers": len(self._workers),
            "ready": sum(worker.ready for worker in self._workers),
            "running": sum(worker.job is not None for worker in self._workers),
            "waiting": len(self._waiting),
        }

    def _assign(self) -> None:
        """Give waiting jobs to idle workers; to one that has just run the same view, if there is one."""
        for job in list(self._waiting):
            idle = [worker for worker in self._workers if worker.idle]
            if not idle:
                return
            view = json.dumps(job.view, sort_keys=True)
            worker = next((each for each in idle if each.last_view == view), idle[0])
            self._waiting.remove(job)
            worker.job, worker.last_view = job, view
            job.worker, job.began = worker, time.monotonic()
            self._send(worker, {"job": job.number, "kind": job.kind, "view": job.view}, job.content)
            # Most jobs keep the time themselves, and have some more to put an answer together.
            self._kill_later(job, self._limits.get(job.kind, self._seconds + 20))

    def _send(self, worker: Worker, head: dict[str, Any], content: bytes = b"") -> None:
        text = json.dumps(head).encode()
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):
            worker.process.stdin.write(_HEAD.pack(len(text), len(content)) + text + content)

    def _kill_unless_done(self, job: Job) -> None:
        worker = job.worker
        if worker is not None and worker.job is job:
            limit = self._limits.get(job.kind, self._seconds)
            job.refuse(408, f"this took longer than {limit:g} s and was ended. Ask for less of it.")
            worker.kill()

    def _kill_later(self, job: Job, seconds: float) -> None:
        job.timers.append(asyncio.get_running_loop().call_later(seconds, self._kill_unless_done, job))

    def _forget(self, job: Job) -> None:
        if self._current.get((job.page, job.kind)) is job:
            del self._current[job.page, job.kind]

    # Answers

    async def _listen(self, worker: Worker) -> None:
        """Everything that a worker says, until it ends; then another takes its place."""
        stream = worker.process.stdout
        assert stream is not None
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head, body = _HEAD.unpack(await stream.readexactly(_HEAD.size))
                if head > _LARGEST_ANSWER or body > _LARGEST_ANSWER:
                    break
                self._received(worker, json.loads(await stream.readexactly(head)), await stream.readexactly(body))
        worker.kill()
        await worker.process.wait()
        if self._closed or worker not in self._workers:
            return
        self._workers.remove(worker)
        if (job := worker.job) is not None:
            job.end()
            self._forget(job)
            job.refuse(422, "the worker of this run ended: it may have needed too much memory. Ask for less of it.")
        if not worker.ready:
            await asyncio.sleep(1)  # one that cannot start at all should not be started all the time
        await self._hire()

    def _received(self, worker: Worker, head: dict[str, Any], body: bytes) -> None:
        if "ready" in head:
            worker.ready = True
        elif "share" in head:
            if worker.job is not None and worker.job.number == head["job"]:
                worker.job.share = head["share"]
        else:
            job, worker.job = worker.job, None
            worker.memory = head["memory"]
            if job is not None:
                job.end()
                self._forget(job)
                if not head["ok"]:
                    job.refuse(422, body.decode())
                elif not job.answer.done():
                    job.answer.set_result(body)
            if worker.memory > self._most_memory:
                worker.ready = False
                worker.kill()
        self._assign()
