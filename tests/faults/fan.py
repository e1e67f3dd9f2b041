"""A fan at the site's real doors: REST over HTTP, and a page that follows the chat's protocol."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx2
from websockets.sync.client import connect

from tests.support.cast import Cast
from tests.support.stack import Stack

ENDED = {"succeeded", "partial", "failed", "cancelled"}

type Frame = dict[str, Any]


class Fan:
    """A member with a token, outside the server's process."""

    def __init__(self, house: Cast, stack: Stack, name: str) -> None:
        self.stack = stack
        self.slug = house.tenant.slug
        self.headers = {"Authorization": f"Bearer {house.token(name)}"}
        self._base = f"{stack.url}/t/{self.slug}/api/v1/"

    def get(self, path: str) -> Any:
        """The JSON behind an address."""
        answer = self.answer(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def answer(self, path: str) -> httpx2.Response:
        """What comes back from an address, whatever it is."""
        return httpx2.get(self._base + path, headers=self.headers, timeout=30)

    def post(self, path: str, body: Any, status: int) -> Any:
        """The JSON that comes back with the status that is expected."""
        answer = httpx2.post(self._base + path, json=body, headers=self.headers, timeout=30)
        assert answer.status_code == status, answer.text
        return answer.json()

    def conversation(self) -> str:
        """The id of a new conversation."""
        return str(self.post("conversations/", {}, 201)["id"])

    def say(self, text: str, conversation: str | None = None) -> str:
        """The id of the run that answers."""
        conversation = conversation or self.conversation()
        return str(self.post(f"conversations/{conversation}/messages/", {"text": text}, 202)["run"])

    def ended(self, run: str, seconds: float = 30) -> Any:
        """The run once it is over."""
        deadline = time.monotonic() + seconds
        while (now := self.get(f"runs/{run}/"))["state"] not in ENDED:
            assert time.monotonic() < deadline, f"{now['state']} after {seconds} s"
            time.sleep(0.1)
        return now

    def page(self, conversation: str, *, resumes: "Page | None" = None) -> "Page":
        """Open the conversation's socket; ``resumes`` is a page that lost its own."""
        url = self.stack.url.replace("http", "ws", 1)
        opening = connect(
            f"{url}/t/{self.slug}/ws/conversations/{conversation}/",
            additional_headers=self.headers,
            origin=self.stack.url,  # type: ignore[arg-type]
            open_timeout=20,
            max_queue=None,
        )
        if resumes is None:
            return Page(opening)
        resumes.goes_on(opening)
        return resumes


@dataclass(slots=True)
class Shown:
    """What a page shows of one run: what steps have committed, and what is said since."""

    seq: int = 0
    said: str = ""
    saying: str = ""
    pieces: int = 0
    resumed: int = 0
    numbers: list[int] = field(default_factory=list)
    end: Frame | None = None

    @property
    def text(self) -> str:
        """All that the page shows."""
        return self.said + self.saying

    def take(self, frame: Frame) -> None:
        """One event, by the rules of the protocol."""
        assert frame["seq"] > self.seq, f"{frame['seq']} came after {self.seq}"
        self.seq = frame["seq"]
        self.numbers.append(self.seq)
        match frame["type"]:
            case "text.delta":
                self.saying += frame["text"]
                self.pieces += 1
            case "step.committed":
                self.said, self.saying = self.text, ""
            case "run.started" if frame["resumed"]:
                self.saying = ""
                self.resumed += 1
            case "run.finished":
                self.end = frame


class Page:
    """An open page: it follows its runs, and survives the loss of its socket."""

    def __init__(self, opening: connect) -> None:
        self._sockets = ExitStack()
        self._socket = self._sockets.enter_context(opening)
        self.runs: dict[str, Shown] = {}
        self.notices: list[Frame] = []
        self.is_away = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sockets.close()

    def goes_on(self, opening: connect) -> None:
        """A new socket: it is told what the page has."""
        self._sockets.close()
        self._socket = self._sockets.enter_context(opening)
        self.send(type="resume", after={run: shown.seq for run, shown in self.runs.items()})

    def send(self, **frame: Any) -> None:
        """Send a frame."""
        self.send_text(json.dumps(frame))

    def send_text(self, text: str) -> None:
        """Send something that need not be JSON."""
        self._socket.send(text)

    def send_bytes(self, data: bytes) -> None:
        """Send a binary frame, which no page does."""
        self._socket.send(data)

    def next(self, seconds: float) -> Frame:
        """The next frame; a run's event is shown, anything else kept as a notice."""
        frame: Frame = json.loads(self._socket.recv(seconds))
        if "seq" in frame:
            self.runs.setdefault(frame["run"], Shown()).take(frame)
        else:
            self.notices.append(frame)
            if frame["type"] == "stream.available":
                self.is_away = False
            elif frame.get("code") == "stream_unavailable":
                self.is_away = True
        return frame

    def until(self, wanted: Callable[[Frame], bool], seconds: float = 30) -> Frame:
        """Read on to a frame that fits."""
        deadline = time.monotonic() + seconds
        while not wanted(frame := self.next(max(0.01, deadline - time.monotonic()))):
            pass
        return frame

    def until_notice(self, kind: str, seconds: float = 30) -> Frame:
        """Read on to a frame of a type."""
        return self.until(lambda frame: frame["type"] == kind, seconds)

    def until_away(self, is_away: bool, seconds: float = 30) -> None:
        """Read on until the page knows that live updates are away, or back."""
        if self.is_away is not is_away:
            self.until(lambda _: self.is_away is is_away, seconds)

    def until_text(self, run: str, pieces: int, seconds: float = 30) -> str:
        """Read on until so many pieces of text have come; what the page shows then."""
        self.until(lambda _: run in self.runs and self.runs[run].pieces >= pieces, seconds)
        return self.runs[run].text

    def until_end(self, run: str, seconds: float = 30) -> Shown:
        """Read on until the run is over; what the page shows of it."""
        while run not in self.runs or self.runs[run].end is None:
            self.next(seconds)
        return self.runs[run]
