"""Starting and ending the server."""

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence

from biasfree import checks

HOST = "127.0.0.1"


def serve(
    file: Sequence[str] = (),
    port: int = 8765,
    *,
    fragment: str = "",
    browser: bool = True,
    workers: int = 2,
    seconds: float = 30.0,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the explorer on loopback until Ctrl-C.

    Args:
        file: path and target of a data file to offer, or nothing.
        port: 0 for any free one.
        fragment: the view that the page opens with, as it stands behind the # of its address.
        browser: whether to open the page.
        workers: processes for runs; one more answers the questions that take longer.
        seconds: the longest that a run may take; what it has until then is shown.
        say: called with the address, once the port is taken.

    Raises:
        ValueError: the port is taken, or the packages of the extra ``explore`` are missing.
    """
    checks.installed("plotly", "starlette", "uvicorn", extra="explore", what="the explorer")
    import uvicorn

    from biasfree.explorer._server import application

    listening = _listening(port)
    port = listening.getsockname()[1]
    address = f"http://{HOST}:{port}/" + (f"#{fragment}" if fragment else "")
    config = uvicorn.Config(
        application(port, file, workers=workers, seconds=seconds), log_level="warning", access_log=False,
        timeout_graceful_shutdown=1, lifespan="on",
        server_header=False, date_header=False,
    )  # fmt: skip
    say(f"biasfree explorer at {address} (Ctrl-C ends it)")
    if browser:
        opening = threading.Timer(0.5, lambda: webbrowser.open(address))
        opening.daemon = True
        opening.start()
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    """A socket on loopback, taken before anything is started."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must lie between 0 and 65535, got {port}.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(512)  # who comes before the server has started waits
    except OSError as error:
        listener.close()
        raise ValueError(f"port {port} is taken. Choose another with --port, or --port 0 for a free one.") from error
    return listener
