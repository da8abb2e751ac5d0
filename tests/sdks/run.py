#!/usr/bin/env python3
"""Client libraries of language models behind Tollgate: run.py TOLLGATE DIRECTORY python [node]

Each library makes two calls. Under a limit whose wait is short, the second call is refused, waits
as long as it is told, tries again, and succeeds. Under a limit whose wait is long, the second call
fails at once with the class of error that the library has for limits. The access log of the gateway
says how many requests the library has made.
"""

import http.server
import json
import pathlib
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "scripts"))

import ports

SHORT, LONG = "1/2s", "1/day"
# What each library raises, and what it says of the code of the error.
ERRORS = {
    "openai": ["RateLimitError", "insufficient_quota"],
    "anthropic": ["RateLimitError", "rate_limit_error"],
    "gemini": ["ClientError", "RESOURCE_EXHAUSTED"],
}
NODE_ERRORS = {**ERRORS, "gemini": ["ApiError", None]}


class Failure(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Model(http.server.BaseHTTPRequestHandler):
    """Answers every call as its API does."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/messages"):
            usage = {"input_tokens": 3, "output_tokens": 2}
            answer = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                      "content": [{"type": "text", "text": "Hi"}], "usage": usage}
        elif "generateContent" in self.path:
            parts = {"role": "model", "parts": [{"text": "Hi"}]}
            answer = {"candidates": [{"content": parts, "finishReason": "STOP"}]}
        else:
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
            usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
            answer = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice],
                      "usage": usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Gateway:
    """A gateway with this limit and this form of refusals."""

    def __init__(self, program, files, form, limit, upstream):
        [self.port] = ports.reserve(1)
        self.log = files / f"{form}-{self.port}.log"
        config = files / f"{form}-{self.port}.yaml"
        config.write_text(
            f'listeners: [{{ address: "127.0.0.1:{self.port}" }}]\n'
            f"policies: {{ p: {{ key: global, limit: {limit} }} }}\n"
            f"routes: [{{ path: /*, policies: [p], upstream: model, refusals: {form} }}]\n"
            f"upstreams: {{ model: http://127.0.0.1:{upstream} }}\n"
            "runtime: { workers: 1 }\n"  # Several workers write the lines in any order.
            f"telemetry: {{ access_log: {{ path: {self.log}, format: json }} }}\n"
        )
        self.process = subprocess.Popen([program, "run", "-c", config], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening" in line:
                break
        else:
            raise Failure("the gateway does not start")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def statuses(self, count):
        end = time.monotonic() + 10
        while True:
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            if len(lines) >= count or time.monotonic() > end:
                return [json.loads(line)["status"] for line in lines]
            time.sleep(0.05)


def in_python(form, port):
    """The class of the error of the second call and its code, or None if it succeeds."""
    url = f"http://127.0.0.1:{port}"
    text = [{"role": "user", "content": "Hi"}]
    try:
        if form == "openai":
            import openai

            client = openai.OpenAI(api_key="k", base_url=f"{url}/v1")
            for _ in range(2):
                client.chat.completions.create(model="m", messages=text)
        elif form == "anthropic":
            import anthropic

            client = anthropic.Anthropic(api_key="k", base_url=url)
            for _ in range(2):
                client.messages.create(model="m", max_tokens=9, messages=text)
        else:
            from google import genai

            client = genai.Client(api_key="k", http_options={"base_url": url})
            for _ in range(2):
                client.models.generate_content(model="m", contents="Hi")
    except Exception as error:
        body = getattr(error, "body", None)
        code = {"openai": lambda: error.code, "anthropic": lambda: body["error"]["type"], "gemini": lambda: error.status}
        return [type(error).__name__, code[form]()]
    return None


def in_node(form, port):
    script = PROJECT / "tests/sdks/call.js"
    done = subprocess.run(["node", script, form, str(port)], capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, f"{script}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    program, files, libraries = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for language in libraries:
        call, errors = (in_node, NODE_ERRORS) if language == "node" else (in_python, ERRORS)
        for form, error in errors.items():
            with Gateway(program, files, form, LONG, server.server_port) as gateway:
                raised = call(form, gateway.port)
                expect(raised == error, f"{language} {form}: {raised} in place of {error}")
                expect(gateway.statuses(2) == [200, 429], f"{language} {form}: {gateway.statuses(2)}")
            print(f"ok  {language} {form}: a long wait is {error[0]}, after one request")
            if form == "gemini":
                continue  # It never tries again by itself.
            with Gateway(program, files, form, SHORT, server.server_port) as gateway:
                raised = call(form, gateway.port)
                expect(raised is None, f"{language} {form}: {raised}, but a short wait passes")
                expect(gateway.statuses(3) == [200, 429, 200], f"{language} {form}: {gateway.statuses(3)}")
            print(f"ok  {language} {form}: after a short wait the call succeeds at the second try")


try:
    main()
except Failure as failure:
    print(f"FAILED  {failure}", file=sys.stderr)
    sys.exit(1)
