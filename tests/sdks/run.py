#!/usr/bin/env python3
"""Client libraries of language models behind Tollgate: run.py TOLLGATE DIRECTORY python [node]

Each library makes two calls. Under a limit whose wait is short, the second call is refused, waits
as long as it is told, tries again, and succeeds. Under a limit whose wait is long, the second call
fails at once with the class of error that the library has for limits. The access log of the gateway
says how many requests the library has made.
"""

import http.client
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

import settle

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


def tools(message):
    """The answer of a server with one tool to a message of the Model Context Protocol, if it gets one."""
    results = {
        "initialize": lambda: {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": lambda: {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
        "tools/call": lambda: {"content": [{"type": "text", "text": "3"}]},
    }
    if "id" not in message:
        return None
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] not in results:
        return {**answer, "error": {"code": -32601, "message": "no such method"}}
    return {**answer, "result": results[message["method"]]()}


class Model(http.server.BaseHTTPRequestHandler):
    """Answers every call as its API does."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/mcp"):
            answer = tools(json.loads(request))
        elif self.path.endswith("/messages"):
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
        body = json.dumps(answer).encode() if answer else b""
        self.send_response(200 if answer else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


class Stating(Model):
    """Answers every call with what it costs."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "zstd":
            body = settle.zstandard.decompress(body)
        request = json.loads(body)
        status, content_type, coding, body, breaks_off = settle.answer(self.path, request)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if coding:
            self.send_header("Content-Encoding", coding)
        self.send_header("Content-Length", str(len(body) + breaks_off))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = breaks_off


class Gateway:
    """A gateway with this limit and this form of refusals."""

    def __init__(self, program, files, form, limit, upstream, key="global", cost="1"):
        [self.port] = ports.reserve(1)
        self.log = files / f"{self.port}.log"
        config = files / f"{self.port}.yaml"
        config.write_text(
            f'listeners: [{{ address: "127.0.0.1:{self.port}" }}]\n'
            f"policies: {{ p: {{ key: {key}, limit: {limit}, missing_key: skip, cost: {cost} }} }}\n"
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

    def lines(self, count):
        end = time.monotonic() + 10
        while True:
            lines = self.log.read_text().splitlines() if self.log.exists() else []
            if len(lines) >= count or time.monotonic() > end:
                return [json.loads(line) for line in lines]
            time.sleep(0.05)

    def statuses(self, count):
        return [line["status"] for line in self.lines(count)]


def tool_in_python(port):
    """What two calls of a tool return: whether each is an error, and its text; or the error that was raised."""
    import anyio
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def call():
        async with streamable_http_client(f"http://127.0.0.1:{port}/mcp") as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                for _ in range(2):
                    try:
                        result = await session.call_tool("add", {})
                        yield [bool(result.is_error), result.content[0].text]
                    except Exception as error:
                        yield [type(error).__name__, str(error)]

    async def both():
        return [outcome async for outcome in call()]

    return anyio.run(both)


def tool_in_node(library, port):
    script = PROJECT / "tests/sdks/tool.mjs"
    done = subprocess.run(["node", script, library, str(port)], capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, f"{script}: {done.stderr}")
    return json.loads(done.stdout)


def check_tools(program, files, upstream, library, call):
    """A refused call of a tool is a result, which an agent shows to its model, or an error, if that is configured."""
    text = "Quota Exceeded (p): Try again in "
    for form, is_result in [("mcp", True), ("{ style: mcp, tool_errors: error }", False)]:
        with Gateway(program, files, form, LONG, upstream, '"mcp:tool"') as gateway:
            first, second = call(gateway.port)
            expect(first == [False, "3"], f"{library}: the first call returns {first}")
            expect((second[0] is True) == is_result and text in second[1], f"{library}: {form}: {second}")
        print(f"ok  {library} mcp: a refused call is {'a result with the text' if is_result else second[0]}")


def check_settlements(program, files):
    """The gateway reads the tokens of each answer, or says why it does not."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stating)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, api, call, raises, expected in settle.CASES:
        cost = f"{{ reserve: 100, settle: {{ usage: {api} }} }}"
        with Gateway(program, files, "problem", "1000000/day", server.server_port, cost=cost) as gateway:
            try:
                call(gateway.port)
                raised = None
            except Exception as error:
                raised = error
            expect((raised is not None) == raises, f"{api}: {name}: {raised!r}")
            lines = gateway.lines(1)
            found = [lines[0].get(field) for field in ["tokens_in", "tokens_out", "unsettled"]]
            expect(len(lines) == 1 and found == expected, f"{api}: {name}: {found} instead of {expected}")
        print(f"ok  {api}: {name}: {found[0]} and {found[1]} tokens, {found[2] or 'settled'}")


def check_codings(program, files):
    """A body in zstd is read and forwarded as it came. What cannot be read is refused."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stating)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cost = "{ reserve: {}, settle: { usage: openai } }"
    for coding, body, expected, outcome in settle.CODED:
        with Gateway(program, files, "problem", "1000000/day", server.server_port, cost=cost) as gateway:
            answered = settle.coded_call(gateway.port, coding, body)
            [line] = gateway.lines(1)
            what = f"{len(body)} bytes in {coding}"
            expect(answered == expected, f"{what}: {answered} instead of {expected}")
            found = [line.get(field) for field in ["outcome", "model", "tokens_in", "tokens_out"]]
            counted = ["m", settle.INPUT, settle.OUTPUT] if outcome == "admitted" else [None] * 3
            expect(found == [outcome, *counted], f"{what}: {found}")
        print(f"ok  a request of {what}: {answered[0]}, {outcome}")


def check_streams(program, files):
    """With `ask_usage`, the budget counts the tokens of a stream, and the client gets no event that it has not asked for."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stating)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for asks, arguments, expected, spent in settle.STREAMS:
        cost = f"{{ reserve: 100, settle: {{ usage: openai, ask_usage: {str(asks).lower()} }} }}"
        what = f"ask_usage: {asks}, {arguments or 'no options'}"
        with Gateway(program, files, "problem", "1000000/day", server.server_port, cost=cost) as gateway:
            parts = settle.openai_parts(gateway.port, **arguments)
            expect(parts == expected, f"{what}: the client gets {parts}")
            [line] = gateway.lines(1)
            expect(line.get("unsettled") == (None if asks else "absent"), f"{what}: {line}")
            connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
            connection.request("GET", "/v1/models")
            left = int(connection.getresponse().headers["X-Ratelimit-Remaining"])
            # This request has reserved its part, too.
            expect(left == 1000000 - spent - 100, f"{what}: {left} are left")
        print(f"ok  openai: a stream with {what}: {len(parts)} parts, {spent} units")


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
        if language == "python":
            check_settlements(program, files)
            check_codings(program, files)
            check_streams(program, files)
            check_tools(program, files, server.server_port, "python", tool_in_python)
        else:
            for library in ["sdk", "client"]:
                call = lambda port, library=library: tool_in_node(library, port)
                check_tools(program, files, server.server_port, f"node {library}", call)
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
