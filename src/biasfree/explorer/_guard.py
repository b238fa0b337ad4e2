"""What every request passes before it is looked at: who asks, from where, and how much.

The server listens on loopback, which keeps other machines out but not other pages of the same browser. A page of
another host could send requests here, or name a host of its own that resolves to loopback. So the Host header must be
ours, an Origin header, where there is one, too, and a body may not be large.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 4_000_000
_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: Application, port: int, headers: dict[str, str]) -> None:
        """Of a server on this port; ``headers`` go with every answer."""
        self._app = app
        self._hosts = {f"{host}:{port}" for host in _HOSTS} | (set(_HOSTS) if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with a sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *self._headers]
            await send(message)

        if scope["type"] != "http":  # no web sockets here
            await send({"type": "websocket.close", "code": 1003})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _say(with_headers, *refusal)
            return
        body, whole = await _body(receive)
        if body is None:
            if not whole:
                return  # the page has gone
            await _say(with_headers, 413, f"a request may hold at most {LARGEST_BODY:,} bytes.")
            return
        await self._app(scope, _again(body, receive), with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = headers.get("host", [])
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return 403, "this server answers to 127.0.0.1 and localhost only."
        if any(origin.lower() not in self._origins for origin in headers.get("origin", [])):
            return 403, "requests from pages of another origin are refused."
        # What browsers say of themselves; a link from elsewhere may open the page, but nothing more.
        if "cross-site" in headers.get("sec-fetch-site", []) and scope["path"] != "/":
            return 403, "requests from pages of another origin are refused."
        length = headers.get("content-length", ["0"])[0]
        if not length.isdigit():
            return 400, "Content-Length must be a number."
        if int(length) > LARGEST_BODY:
            return 413, f"a request may hold at most {LARGEST_BODY:,} bytes."
        return None


async def _body(receive: Receive) -> tuple[bytes | None, bool]:
    """The whole body, or None and whether it was too large rather than broken off."""
    received = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None, False
        received += message.get("body", b"")
        if len(received) > LARGEST_BODY:
            return None, True
        if not message.get("more_body"):
            return bytes(received), True


def _again(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body once more, and then what comes after it."""
    given = False

    async def receive_again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _say(send: Send, status: int, sentence: str) -> None:
    text = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
