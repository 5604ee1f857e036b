"""Drives Chromium without a screen over its debugging pipe: opens a page, reads it, points at it, takes pictures.

Python's standard library only. Commands and events are those of the Chrome DevTools Protocol, one JSON object each,
ended by a NUL.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium")


class Browser:
    """One process with one page; everything that goes wrong in the page is in `errors`."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        to_read, self.writer = os.pipe()
        self.reader, to_write = os.pipe()
        ends = (to_read, to_write)

        def place():  # the browser reads commands from 3, and writes answers to 4
            read, write = os.dup(ends[0]), os.dup(ends[1])
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking", "--remote-debugging-pipe",
             "--user-data-dir=" + self.profile.name, "about:blank"],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in ends:
            os.close(end)
        self.buffer, self.number, self.events, self.errors, self.requests = b"", 0, [], [], []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.reader], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("chromium does not answer")
            more = os.read(self.reader, 1 << 20)
            if not more:
                raise EOFError("chromium has ended")
            self.buffer += more
        one, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(one)
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.errors.append(str([argument.get("value") for argument in what["args"]]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        return message

    def call(self, method, limit=60, **what):
        self.number += 1
        message = {"id": self.number, "method": method, "params": what}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + limit
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, script):
        """The value of an expression, as JSON has it."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return answer["result"].get("value")

    def resize(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def dark(self, yes):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if yes else "light"}])

    def open(self, path, limit=30):
        """Opens a file and waits until it has drawn itself; returns the seconds that this took."""
        self.errors, self.requests, self.events = [], [], []
        start = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not self.evaluate("document.readyState === 'complete' && document.documentElement.dataset.ready || ''"):
            if time.monotonic() - start > limit:
                raise TimeoutError(f"{path} does not become ready: {self.errors}")
            time.sleep(0.01)
        return time.monotonic() - start

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x0, x1, y):
        self.mouse("mouseMoved", x0, y)
        self.mouse("mousePressed", x0, y, button="left", clickCount=1, buttons=1)
        for part in range(1, 6):
            self.mouse("mouseMoved", x0 + (x1 - x0) * part / 5, y, button="left", buttons=1)
        self.mouse("mouseReleased", x1, y, button="left", clickCount=1)

    def picture(self, path, most=None):
        """Takes a picture of the whole page, or of its first `most` pixels from the top."""
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("innerWidth")
        height = min(height, most or height)
        made = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as f:
            f.write(base64.b64decode(made["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", limit=5)
        except (OSError, EOFError, TimeoutError, RuntimeError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for end in (self.reader, self.writer):
            os.close(end)
        self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()
