"""A page in headless Chromium, over DevTools' pipe: no port, no other module.

    with Chromium() as browser:
        page = browser.open(path)          # file://; scripts have run
        page.value("document.title")
    page.problems   # what its console and its network said

`Chromium.path()` is None where no browser is installed.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 300  # for what hangs


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.problems, self.requests, self.loaded = [], [], False

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def take(self, event):
        method, params = event["method"], event["params"]
        if method == "Runtime.consoleAPICalled":
            self.problems.append(params["type"] + ": " + " ".join(
                str(a.get("value", a.get("description")))
                for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            # That a canvas is read several times is of the test alone.
            if "willReadFrequently" not in params["entry"]["text"]:
                self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def go(self, path):
        self.loaded = False
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.browser.until(lambda: self.loaded)

    def value(self, expression):
        done = self.call("Runtime.evaluate", expression=expression,
                         returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(done["data"]))


class Chromium:
    @staticmethod
    def path():
        return next(filter(None, map(shutil.which, NAMES)), None)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        line = [self.path(), "--headless=new", "--no-sandbox", "--disable-gpu",
                "--no-first-run", "--disable-background-networking",
                "--disable-dev-shm-usage", "--remote-debugging-pipe",
                "--user-data-dir=" + self.folder.name]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "-", *line],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.bytes, self.number, self.answers, self.pages = b"", 0, {}, {}
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, TimeoutError, OSError,
                subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()

    def until(self, is_so):
        end = time.monotonic() + SECONDS
        while not is_so():
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise TimeoutError("no answer from the browser")
            some = os.read(self.back, 1 << 20)
            if not some:
                raise RuntimeError("the browser ended")
            self.bytes += some
            *whole, self.bytes = self.bytes.split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    self.answers[message["id"]] = message
                elif message.get("sessionId") in self.pages:
                    self.pages[message["sessionId"]].take(message)

    def call(self, method, session=None, **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        self.until(lambda: number in self.answers)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path, width=1280, height=1000, scripts=True):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target,
                            flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)
        if not scripts:
            page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.go(path)
        return page


class InChromium:
    """Beside a test case: one browser for all of its tests, which are skipped
    where there is none."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if Chromium.path() is not None:
            cls.browser = Chromium().__enter__()
            cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        super().setUp()
        if Chromium.path() is None:
            self.skipTest("no Chromium is installed; apt-get install chromium")
