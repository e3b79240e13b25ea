# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that is clicked and typed at: the W3C WebDriver protocol, spoken to chromedriver over HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
MISSING = (
    None if CHROMIUM and CHROMEDRIVER else "chromium and chromedriver are not installed (tools/setup.sh deep)"
)
DEADLINE_S = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element, by the standard
TAB, ENTER, SPACE, DOWN, CONTROL = "\ue004", "\ue007", " ", "\ue015", "\ue009"


class Browser:
    """One window."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port, self._path = port, ""
        options = {
            "binary": CHROMIUM,
            "args": ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update",
                     f"--user-data-dir={folder / 'profile'}"],
            "prefs": {"download.default_directory": str(folder)},
        }  # fmt: skip
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self._path = f"/session/{self._ask('POST', '/session', wanted)['sessionId']}"

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S)
        text = json.dumps(body) if body is not None else None
        link.request(method, self._path + path, text, {"Content-Type": "application/json"})
        answer = json.loads(link.getresponse().read())["value"]
        link.close()
        if isinstance(answer, dict) and "error" in answer:
            raise AssertionError(f"{path}: {answer['error']}: {answer['message']}")
        return answer

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, page: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """As a window of this width shows it, a telephone's too, and without any network."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("POST", "/url", {"url": page.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def until(self, script: str) -> Any:
        """What the script returns, as soon as that is true."""
        end = time.monotonic() + DEADLINE_S
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"this did not come true: {script}"
            time.sleep(0.05)
        return found

    def find(self, selector: str) -> str:
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the element: what lies over it would be hit instead, which is an error."""
        self._ask("POST", f"/element/{self.find(selector)}/click", {})

    def hover(self, x: float, y: float, press: bool = False) -> None:
        """Moves the mouse to a place in the window."""
        actions: list[dict[str, Any]] = [
            {"type": "pointerMove", "x": round(x) + away, "y": round(y), "duration": 50} for away in (6, 0)
        ]
        actions += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}] if press else []
        self._ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """With the mouse, from one place in the window to another."""
        moves = [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 100} for x, y in (begin, end)
        ]
        actions = [
            moves[0],
            {"type": "pointerDown", "button": 0},
            moves[1],
            {"type": "pointerUp", "button": 0},
        ]
        self._ask("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def wheel(self, x: float, y: float, by: int, held: str = "") -> None:
        """Turns the wheel at a place in the window, while a key is held."""
        turned = {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": by, "duration": 0}
        wait = {"type": "pause", "duration": 0}
        keys = [{"type": kind, "value": held} for kind in ("keyDown", "keyUp")] if held else [wait, wait]
        sources = [
            {"type": "wheel", "id": "wheel", "actions": [wait, turned, wait]},
            {"type": "key", "id": "keyboard", "actions": [keys[0], wait, keys[1]]},
        ]
        self._ask("POST", "/actions", {"actions": sources})

    def keys(self, text: str) -> None:
        """Pressed one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def close(self) -> None:
        self._ask("DELETE", "")


def watched(whole: str, path: Path) -> None:
    """The page with a list of what failed in it."""
    watch = (
        "<script>window.failed = []; onerror = (what) => { failed.push(String(what)); };"
        "addEventListener('unhandledrejection', (event) => failed.push(String(event.reason)));</script><style>"
    )
    path.write_text(whole.replace("<style>", watch, 1))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    assert CHROMEDRIVER is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(
        [CHROMEDRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + DEADLINE_S
        while True:
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert driver.poll() is None, f"chromedriver ended with {driver.returncode}"
            assert time.monotonic() < end, "chromedriver does not listen"
            time.sleep(0.05)
        window = Browser(port, folder)
        try:
            yield window
        finally:
            window.close()
    finally:
        driver.terminate()
        driver.wait(DEADLINE_S)
