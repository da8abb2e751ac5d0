"""Client libraries of language models behind Tollgate, whose answers state what they cost.

Each case makes one call. The access log of the gateway says which tokens it has read in the answer,
or why it has read none. The server counts the tokens itself: 20 of the input and 30 of the output.
"""

import http.client
import json
import struct
import urllib.request
import zlib

import zstandard

INPUT, OUTPUT = 20, 30


def event(kind, payload):
    """A message of an event stream of AWS."""
    headers = b""
    for name, value in [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")]:
        headers += bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    message = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message += struct.pack(">I", zlib.crc32(message)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))


def events(*data):
    return "".join(f"event: {it.get('type', 'message')}\ndata: {json.dumps(it)}\n\n" for it in data).encode()


def openai_stream(with_usage):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    last = [{**chunk, "choices": [], "usage": usage}] if with_usage else []
    return events({**chunk, "choices": [delta]}, *last) + b"data: [DONE]\n\n"


def anthropic_stream():
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": INPUT, "output_tokens": 1}}
    return events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": OUTPUT}},
        {"type": "message_stop"},
    )


def bedrock_stream():
    usage = {"inputTokens": INPUT, "outputTokens": OUTPUT, "totalTokens": INPUT + OUTPUT}
    return (
        event("messageStart", {"role": "assistant"})
        + event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})
        + event("messageStop", {"stopReason": "end_turn"})
        + event("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})
    )


def answer(path, request):
    """Status, content type, content coding and body of the answer to a call, and whether it breaks off."""
    if "converse-stream" in path:
        return 200, "application/vnd.amazon.eventstream", None, bedrock_stream(), False
    if path.endswith("/messages"):
        return 200, "text/event-stream", None, anthropic_stream(), False
    if path.endswith("/api/chat"):
        lines = [{"message": {"content": "Hi"}, "done": False},
                 {"done": True, "prompt_eval_count": INPUT, "eval_count": OUTPUT}]
        return 200, "application/x-ndjson", None, "".join(json.dumps(line) + "\n" for line in lines).encode(), False
    if request["model"] == "wrong":
        error = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
        return 400, "application/json", None, json.dumps(error).encode(), False
    if request.get("stream"):
        with_usage = (request.get("stream_options") or {}).get("include_usage")
        body, breaks_off = openai_stream(with_usage), request["model"] == "breaking"
        # After the last event the library reads nothing.
        return 200, "text/event-stream", None, body.removesuffix(b"data: [DONE]\n\n") if breaks_off else body, breaks_off
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    text = json.dumps(body).encode()
    if request["model"] == "coded":
        return 200, "application/json", "zstd", zstandard.compress(text), False
    return 200, "application/json", None, text, False


def openai_call(port, **arguments):
    import openai

    client = openai.OpenAI(api_key="k", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)
    call = client.chat.completions.create(messages=[{"role": "user", "content": "Hi"}], **arguments)
    return "".join(part.choices[0].delta.content or "" for part in call if part.choices) if arguments.get("stream") else call


def openai_parts(port, **arguments):
    """The parts of a stream: for each, whether it has choices, and whether it states tokens."""
    import openai

    client = openai.OpenAI(api_key="k", base_url=f"http://127.0.0.1:{port}/v1", max_retries=0)
    call = client.chat.completions.create(messages=[{"role": "user", "content": "Hi"}], stream=True, model="m", **arguments)
    return [(bool(part.choices), part.usage is not None) for part in call]


ASKED = {"stream_options": {"include_usage": True}}
# What `ask_usage` is, further arguments of the call, the parts that the client gets, and the spent units.
STREAMS = [
    (False, {}, [(True, False)], 100),
    (True, {}, [(True, False)], INPUT + OUTPUT),
    (True, {"stream_options": {"include_usage": False}}, [(True, False)], INPUT + OUTPUT),
    (True, ASKED, [(True, False), (False, True)], INPUT + OUTPUT),
]


def anthropic_call(port):
    import anthropic

    client = anthropic.Anthropic(api_key="k", base_url=f"http://127.0.0.1:{port}", max_retries=0)
    with client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]) as stream:
        return stream.get_final_message()


def bedrock_call(port):
    import boto3

    client = boto3.client("bedrock-runtime", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                          aws_access_key_id="k", aws_secret_access_key="s")
    stream = client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "Hi"}]}])["stream"]
    # The parser of botocore checks each length and each checksum.
    parts = list(stream)
    assert parts[-1]["metadata"]["usage"]["outputTokens"] == OUTPUT, parts
    return parts


def plain_call(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=30).read()


def coded_call(port, coding, body):
    """The status of the answer to a body in this coding, and the codings that the answer asks for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    fields = {"Content-Type": "application/json", "Content-Encoding": coding}
    connection.request("POST", "/v1/chat/completions", body, fields)
    answer = connection.getresponse()
    answer.read()
    return answer.status, answer.headers["Accept-Encoding"]


QUESTION = json.dumps({"model": "m", "max_tokens": 7, "messages": [{"role": "user", "content": "Hi"}]}).encode()
# The coding of a request, its body, the status and the codings of the answer, and the outcome in the log.
CODED = [
    ("zstd", zstandard.compress(QUESTION), (200, None), "admitted"),
    ("zstd", zstandard.compress(QUESTION)[:-1], (400, None), "body_ambiguous"),
    ("zstd", zstandard.compress(QUESTION) + zstandard.compress(b" "), (400, None), "body_ambiguous"),
    ("zstd", zstandard.compress(QUESTION + b" " * (1 << 21)), (413, None), "body_too_large"),
    ("br", QUESTION, (415, "gzip, zstd"), "body_coding"),
]


STREAM = {"model": "m", "stream": True}
COUNTED = [INPUT, OUTPUT, None]
# The name, the API, the call, whether it raises, and tokens_in, tokens_out and unsettled of the log.
CASES = [
    ("a document", "openai", lambda port: openai_call(port, model="m"), False, COUNTED),
    ("events with usage", "openai",
     lambda port: openai_call(port, **STREAM, stream_options={"include_usage": True}), False, COUNTED),
    ("events without usage", "openai", lambda port: openai_call(port, **STREAM), False, [None, None, "absent"]),
    ("events that break off", "openai", lambda port: openai_call(port, model="breaking", stream=True), True,
     [None, None, "broken"]),
    ("an error", "openai", lambda port: openai_call(port, model="wrong"), True, [None, None, None]),
    # The client decompresses the answer; the gateway does not.
    ("an answer in zstd", "openai",
     lambda port: zstandard.decompress(plain_call(port, "/v1/chat/completions", {"model": "coded"})), False,
     [None, None, "encoded"]),
    ("events", "anthropic", anthropic_call, False, COUNTED),
    ("lines", "ollama", lambda port: plain_call(port, "/api/chat", {"model": "m"}), False, COUNTED),
    ("an event stream of AWS", "bedrock", bedrock_call, False, COUNTED),
]
