"""The explorer's server: the page, its choices, and the jobs that the page asks for. Loopback only."""

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from biasfree import __version__, checks
from biasfree.explorer import _gallery, _offline, _view
from biasfree.explorer._guard import Application, Guard
from biasfree.explorer._workers import Job, Pool, Refused

_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
_LONGER = 4  # times as long for what is not waited for
_POLL = 0.1  # seconds between looks whether a page is still there
_PAGE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MEDIA = dict.fromkeys(("run", "beside"), "application/octet-stream")
_MEDIA |= dict.fromkeys(("plateaus", "diagnose"), "application/json")
_DOWNLOADS = {"netcdf": ("application/x-netcdf", "run.nc"), "csv": ("text/csv", "run.csv")}


def application(
    port: int, file: Sequence[str] = (), *, workers: int = 2, seconds: float = 30.0, grace: float = 3.0
) -> Application:
    """The whole application.

    Args:
        port: where it will listen; Host and Origin headers must say so.
        file: path and target of a data file to offer, or nothing.
        workers: processes for runs; one more answers the questions that take longer.
        seconds: the longest that a job may run.
        grace: seconds that a worker has to end a job that is not wanted.
    """
    slow = Pool(1, _LONGER * seconds, file, grace=grace, limits={"plateaus": seconds / 2})
    server = _Server(Pool(workers, seconds, file, grace=grace, limits={"read": seconds / 2}), slow, file)
    app = Starlette(
        routes=[
            Route("/", server.page),
            Route("/page/{name}", server.part),
            Route("/plotly.js", server.plotly),
            Route("/api/choices", server.choices),
            Route("/api/alive", server.alive),
            Route("/api/progress", server.progress),
            Route("/api/data", server.data, methods=["POST"]),
            Route("/api/html", server.html, methods=["POST"]),
            Route("/api/{kind}", server.job, methods=["POST"]),
        ],
        lifespan=server.lifespan,
        exception_handlers={Refused: _refused, ValueError: _bad, 404: _missing, 405: _missing},
    )
    policy = (
        f"default-src 'self'; script-src 'self' '{server.import_map_hash}'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-cache",
    }
    return Guard(app, port, headers)


class _Server:
    def __init__(self, quick: Pool, slow: Pool, file: Sequence[str]) -> None:
        self._pools = {"run": quick, "beside": quick}
        self._pools |= dict.fromkeys(("plateaus", "diagnose", "netcdf", "csv"), slow)
        self._quick, self._slow, self._file = quick, slow, tuple(file)
        self._uploads = itertools.count(1)
        match = re.search(r'<script type="importmap">(.*?)</script>', _offline.part("index.html"), re.DOTALL)
        assert match is not None
        digest = hashlib.sha256(match.group(1).encode()).digest()
        self.import_map_hash = f"sha256-{base64.b64encode(digest).decode()}"

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await self._quick.start()
        await self._slow.start()
        _offline.plotly()  # before anybody waits for it
        try:
            yield
        finally:
            await self._quick.close()
            await self._slow.close()

    # The page

    async def page(self, request: Request) -> Response:
        return Response(_offline.part("index.html"), media_type="text/html; charset=utf-8")

    async def part(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _offline.parts():
            raise Refused(404, "there is no such file.")
        kind = _TYPES[Path(name).suffix]
        return Response(_offline.part(name), media_type=f"{kind}; charset=utf-8")

    async def plotly(self, request: Request) -> Response:
        version = metadata.version("plotly")
        if request.headers.get("if-none-match") == version:
            return Response(status_code=304)
        return Response(_offline.plotly(), media_type="text/javascript; charset=utf-8", headers={"etag": version})

    # Questions

    async def choices(self, request: Request) -> Response:
        file = None if not self._file else {"name": Path(self._file[0]).name}
        return JSONResponse(
            {
                "version": __version__,
                "defaults": _view.defaults(),
                "data": {name: list(takes) for name, (_, takes) in _view.GENERATORS.items()},
                "file": file,
                "losses": _view.LOSSES,
                "rtols": _view.RTOLS,
                "largest": _view.LARGEST,
                "gallery": [prepared._asdict() for prepared in _gallery.GALLERY],
            }
        )

    async def alive(self, request: Request) -> Response:
        return JSONResponse({"version": __version__, "runs": self._quick.counts(), "answers": self._slow.counts()})

    async def progress(self, request: Request) -> Response:
        kind = checks.one_of(request.query_params.get("kind", "run"), self._pools, "kind of job")
        return JSONResponse(self._pools[kind].standing(_page(request.query_params.get("page")), kind))

    async def data(self, request: Request) -> Response:
        """A file dropped on the page, read as ``datasets.load`` reads one; it is never written."""
        name, target = request.query_params.get("name", ""), request.query_params.get("target") or None
        if not 0 < len(name) <= 200:
            raise ValueError("the file needs a name of 1 to 200 characters.")
        page = _page(request.query_params.get("page", f"upload-{next(self._uploads)}"))
        # In a worker, like everything that may take long: a file may be made to be slow to read.
        job = self._quick.submit(page, "read", {"name": name, "target": target}, await request.body())
        return Response(await self._wait(request, self._quick, job), media_type="application/json")

    # Jobs

    async def job(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in self._pools:
            raise Refused(404, "there is no such address.")
        answer = await self._answer(request, kind, *_page_and_view(await request.body()))
        if kind in _DOWNLOADS:
            media, name = _DOWNLOADS[kind]
            return Response(answer, media_type=media, headers={"content-disposition": f'attachment; filename="{name}"'})
        return Response(answer, media_type=_MEDIA[kind])

    async def html(self, request: Request) -> Response:
        """The view as one file that works from disk."""
        page, view, shown = _page_view_and_shown(await request.body())
        answers = {}
        for kind in ("run", "beside", "plateaus", "diagnose"):
            try:
                answers[kind] = await self._answer(request, kind, f"{page}-html", view)
            except Refused as refusal:
                if kind == "run":
                    raise
                answers[kind] = json.dumps({"error": refusal.sentence}).encode()
        text = await asyncio.to_thread(_offline.one_file, view, shown, answers)
        named = {"content-disposition": 'attachment; filename="biasfree-view.html"'}
        return Response(text, media_type="text/html; charset=utf-8", headers=named)

    async def _answer(self, request: Request, kind: str, page: str, view: Any) -> bytes:
        """Have a job done."""
        _view.View.of(view)  # what is wrong by itself need not wait for a worker
        pool = self._pools[kind]
        return await self._wait(request, pool, pool.submit(page, kind, view))

    async def _wait(self, request: Request, pool: Pool, job: Job) -> bytes:
        """Wait for a job; a page that goes away takes its job with it."""
        while not job.answer.done():
            await asyncio.wait([job.answer], timeout=_POLL)
            if not job.answer.done() and await request.is_disconnected():
                pool.drop(job, "its page has gone.")
        return job.answer.result()


def _page_and_view(body: bytes) -> tuple[str, Any]:
    page, view, _ = _page_view_and_shown(body)
    return page, view


def _page_view_and_shown(body: bytes) -> tuple[str, Any, dict[str, Any]]:
    """Page, view and what else the page shows, of a request's body."""
    try:
        content = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body must be JSON: an object with `page` and `view`.") from error
    if not isinstance(content, dict) or not {"page", "view"} <= content.keys() <= {"page", "view", "shown"}:
        raise ValueError("the body must be a JSON object with `page` and `view`.")
    shown = content.get("shown", {})
    if not isinstance(shown, dict) or len(json.dumps(shown)) > 2000:
        raise ValueError("`shown` must be a small JSON object.")
    return _page(content["page"]), content["view"], shown


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number.")


def _page(name: Any) -> str:
    if not isinstance(name, str) or not _PAGE.fullmatch(name):
        raise ValueError("`page` must be 1 to 40 letters, digits, - or _.")
    return name


# Starlette looks handlers up by the kind of exception.


async def _refused(request: Request, refusal: Any) -> Response:
    return JSONResponse({"error": refusal.sentence}, status_code=refusal.status)


async def _bad(request: Request, error: Any) -> Response:
    return JSONResponse({"error": str(error)}, status_code=422)


async def _missing(request: Request, error: Any) -> Response:
    return JSONResponse({"error": "there is no such address."}, status_code=error.status_code)
