"""Debian's Chromium without a window, over the DevTools protocol on a WebSocket."""

import base64
import json
import os
import re
import subprocess
import tempfile
import threading
import time

import websocket

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run", "--hide-scrollbars"]
PATIENCE_S = 30


class Browser:
    """One page. It is closed at the end of a `with`."""

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory()
        home = self._profile.name
        command = ["chromium", *ARGUMENTS, f"--user-data-dir={home}", "about:blank"]
        environment = {**os.environ, "HOME": home}
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        address = next(filter(None, (re.search(r"listening on (ws://\S+)", line) for line in self._process.stderr)))
        # The pipe is read to its end, so that the browser never waits for room.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()
        self._socket = websocket.create_connection(address[1], suppress_origin=True, timeout=PATIENCE_S)
        self._calls, self._session = 0, None
        target = self._call("Target.createTarget", url="about:blank")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._process.kill()
        self._process.wait()
        self._profile.cleanup()

    def _call(self, method, **parameters):
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        """The value of an expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression):
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.value(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise RuntimeError(f"it is never true: {expression}")
            time.sleep(0.1)

    def open(self, url):
        """Opens a page."""
        self._call("Page.navigate", url=url)

    def sign_in(self, url, token):
        """Opens the page with a token that this tab has kept."""
        script = f"sessionStorage.setItem('tollgate-token', {json.dumps(token)})"
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)
        self.open(url)
        self.until("document.getElementById('contact')?.textContent.includes('Live')")

    def resize(self, width, height, theme):
        """Shows the page in a window of this size, in one of the two themes."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        feature = {"name": "prefers-color-scheme", "value": theme}
        self._call("Emulation.setEmulatedMedia", features=[feature])
        time.sleep(0.5)

    def picture(self, path, width, height, theme):
        """Writes what the window shows."""
        self.resize(width, height, theme)
        answer = self._call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))
