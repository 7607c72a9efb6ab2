"""A server with a known step law that speaks vLLM's streaming dialect, and fails on demand."""

import argparse
import asyncio
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

BLOCK = 16
FAULTS = ("http500", "reset", "cut", "stall", "garbage", "error_event", "restart")


@dataclass(kw_only=True)
class Behaviour:
    """What the server does; all times in seconds.

    Parameters
    ----------
    per_step, per_prefill_token, per_decode : float
        Step law.
    max_num_seqs : int
        Sequences in a batch.
    merged : int
        Tokens that each event carries (the engine still makes one a step).
    refused : frozenset of str
        Body fields answered with HTTP 400.
    token_ids, usage, details : bool
        Whether ids, counts and cached counts are given when asked for.
    role_at_once : bool
        Chat: role-only chunk before the first token exists.
    faults : dict of int to str
        Fault by row (from the X-Request-Id that the client sends).
    fault_after : int
        Events before a reset, cut, stall or restart.
    api_key : str
        Key that must be sent; empty for none.
    identity : str
        ``vllm``, ``llamacpp`` or ``none``.
    tokenizer : bool
        Whether /tokenize is there.
    old_names : bool
        Metrics named as before vLLM 0.9.2.
    dev_mode : bool
        Whether /server_info is there.
    tls : ssl.SSLContext, optional
        Certificate to serve https with.
    """

    per_step: float = 0.004
    per_prefill_token: float = 2e-5
    per_decode: float = 1e-4
    max_num_seqs: int = 256
    merged: int = 1
    refused: frozenset[str] = frozenset()
    token_ids: bool = True
    usage: bool = True
    details: bool = True
    role_at_once: bool = False
    faults: dict[int, str] = field(default_factory=dict)
    fault_after: int = 2
    api_key: str = ""
    identity: str = "vllm"
    tokenizer: bool = True
    old_names: bool = False
    dev_mode: bool = False
    tls: ssl.SSLContext | None = None


@dataclass
class Job:
    """One request inside the fake engine."""

    body: dict[str, Any]
    row: int
    n_prompt: int
    n_output: int
    cached: int
    number: int
    made: int = 0
    times: list[float] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False


class FakeServer:
    """The server; `running` starts one in a thread of its own."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.port = 0
        self.jobs: list[Job] = []
        self.steps: list[tuple[float, int, int]] = []
        self.n_connections = 0
        self.counters = {
            "prompt": 0, "cached": 0, "generation": 0, "finished": 0, "preemptions": 0
        }  # fmt: skip
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._wake = asyncio.Event()
        self._blocks: set[tuple[object, ...]] = set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        scheme = "https" if self.behaviour.tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def job(self, row: int) -> Job:
        """Last request that came for a row of the client's table."""
        return [job for job in self.jobs if job.row == row][-1]

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", port, backlog=1024, ssl=self.behaviour.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Stop listening and drop every connection."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def engine(self) -> None:
        """Step for ever: batch, wait as long as the law says, hand out one token each."""
        law = self.behaviour
        while True:
            if not (self._running or self._waiting):
                self._wake.clear()
                await self._wake.wait()
            self._running = [job for job in self._running if not job.gone]
            room = law.max_num_seqs - len(self._running)
            new, self._waiting = self._waiting[:room], self._waiting[room:]
            prefill = sum(job.n_prompt - job.cached for job in new)
            decodes = len(self._running)
            self._running += new
            span = law.per_step + law.per_prefill_token * prefill + law.per_decode * decodes
            await asyncio.sleep(span)
            now = time.monotonic()
            self.steps.append((now, prefill, decodes))
            for job in self._running:
                job.made += 1
                job.times.append(now)
                job.ready.set()
            self.counters["generation"] += len(self._running)
            done = [job for job in self._running if job.made >= job.n_output]
            self.counters["finished"] += len(done)
            self._running = [job for job in self._running if job.made < job.n_output]

    async def restart(self, pause: float) -> None:
        """Drop every connection and be away for a while; counters start again."""
        self.close()
        self._running, self._waiting = [], []
        self.counters = dict.fromkeys(self.counters, 0)
        await asyncio.sleep(pause)
        await self.start(self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                verb, path, _ = head[0].split()
                fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                text = await reader.readexactly(int(fields.get("content-length", 0)))
                await self._answer(writer, verb, path, fields, text)
        self._writers.discard(writer)
        writer.close()

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        verb: str,
        path: str,
        fields: dict[str, str],
        text: bytes,
    ) -> None:
        law = self.behaviour
        key = fields.get("authorization", "").removeprefix("bearer ")
        if law.api_key and key != law.api_key.lower():
            return _plain(writer, 401, {"error": {"message": f"wrong key {key!r}"}})
        if path == "/v1/models":
            return _plain(writer, 200, {"data": [{"id": "fake", "max_model_len": 4096}]})
        if path == "/version" and law.identity == "vllm":
            return _plain(writer, 200, {"version": "0.0.fake"})
        if path.startswith("/server_info") and law.dev_mode:
            config = {"scheduler_config": {"max_num_seqs": law.max_num_seqs}}
            return _plain(writer, 200, {"vllm_config": config})
        if path == "/props" and law.identity == "llamacpp":
            props = {"build_info": "b1-fake", "total_slots": 8}
            return _plain(writer, 200, props)
        if path == "/metrics" and law.identity == "vllm":
            return _plain(writer, 200, self._metrics())
        if path == "/tokenize" and law.tokenizer:
            return _plain(writer, 200, {"tokens": list(range(100, 300))})
        if verb == "POST" and path in {"/v1/completions", "/v1/chat/completions"}:
            return await self._complete(writer, path, fields, json.loads(text))
        return _plain(writer, 404, {"detail": "Not Found"})

    async def _complete(
        self, writer: asyncio.StreamWriter, path: str, fields: dict[str, str], body: dict[str, Any]
    ) -> None:
        law = self.behaviour
        name = fields.get("x-request-id", "-")
        last = name.rsplit("-", 1)[1]
        row = int(last) if last.isdigit() else -1
        words = set(body) | set(body.get("stream_options", {}))
        if isinstance(body.get("prompt"), list):
            words.add("token_prompt")
        for word in sorted(words & law.refused):
            return _plain(writer, 400, {"error": {"message": f"Unrecognized field: {word}"}})
        fault = law.faults.get(row, "")
        if fault == "http500":
            return _plain(writer, 500, {"error": {"message": "out of luck", "code": 500}})
        job = self._admit(body, row)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"X-Request-Id: " + name.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        try:
            await self._stream(writer, job, chat=path.endswith("chat/completions"), fault=fault)
        except (ConnectionError, asyncio.CancelledError):
            job.gone = True
            raise
        return None

    def _admit(self, body: dict[str, Any], row: int) -> Job:
        prompt = body.get("prompt", body.get("messages"))
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
            tokens: list[object] = []
            for message in prompt:
                tokens += [message["role"], *message["content"].split()]
        else:
            tokens = list(prompt if isinstance(prompt, list) else str(prompt).split())
        cached, whole = 0, len(tokens) // BLOCK
        for block in range(whole):
            lead = tuple(tokens[: (block + 1) * BLOCK])
            if lead in self._blocks and (block + 1) * BLOCK < len(tokens) and cached == block:
                cached = block + 1
            self._blocks.add(lead)
        n_output = body.get("max_tokens", body.get("max_completion_tokens", 16))
        job = Job(body, row, len(tokens), n_output, cached * BLOCK, len(self.jobs))
        self.jobs.append(job)
        self.counters["prompt"] += len(tokens)
        self.counters["cached"] += job.cached
        self._waiting.append(job)
        self._wake.set()
        return job

    async def _stream(
        self, writer: asyncio.StreamWriter, job: Job, *, chat: bool, fault: str
    ) -> None:
        law, sent, n_events = self.behaviour, 0, 0
        if chat and law.role_at_once:
            await self._event(writer, job, {"delta": {"role": "assistant", "content": ""}})
        while sent < job.n_output:
            await job.ready.wait()
            job.ready.clear()
            while sent < job.made and (job.made - sent >= law.merged or job.made == job.n_output):
                if chat and sent == 0 and not law.role_at_once:
                    await self._event(writer, job, {"delta": {"role": "assistant", "content": ""}})
                n = min(law.merged, job.made - sent)
                sent += n
                await self._event(writer, job, self._choice(job, chat, sent, n), sent)
                n_events += 1
                if fault and n_events == law.fault_after:
                    await self._fail(writer, job, fault)
                    if fault != "garbage":
                        return
        if job.body.get("stream_options", {}).get("include_usage") and law.usage:
            _chunk(writer, {"choices": [], "usage": self._usage(job, sent)})
        _chunk(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _fail(self, writer: asyncio.StreamWriter, job: Job, fault: str) -> None:
        job.gone = True
        if fault == "reset":
            writer.transport.abort()
        elif fault == "cut":  # a clean end of the stream, too early
            writer.write(b"0\r\n\r\n")
        elif fault == "stall":
            await asyncio.sleep(3600)
        elif fault == "garbage":
            job.gone = False
            writer.write(b"d\r\ndata: {oops\n\n\r\n")
        elif fault == "error_event":
            _chunk(writer, {"error": {"message": "engine died", "type": "InternalServerError"}})
            writer.write(b"0\r\n\r\n")
        elif fault == "restart":
            self._restarting = asyncio.ensure_future(self.restart(0.3))

    def _choice(self, job: Job, chat: bool, sent: int, n: int) -> dict[str, Any]:
        text = " w" * n
        choice: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
        choice["finish_reason"] = "length" if sent == job.n_output else None
        if job.body.get("return_token_ids") and self.behaviour.token_ids:
            choice["token_ids"] = [
                1000 + (job.number * 31 + k) % 997 for k in range(sent - n, sent)
            ]
        return choice

    async def _event(
        self, writer: asyncio.StreamWriter, job: Job, choice: dict[str, Any], sent: int = 0
    ) -> None:
        event: dict[str, Any] = {"id": f"cmpl-{job.number}", "choices": [{"index": 0, **choice}]}
        if (
            job.body.get("stream_options", {}).get("continuous_usage_stats")
            and self.behaviour.usage
        ):
            event["usage"] = self._usage(job, sent)
        _chunk(writer, event)
        await writer.drain()

    def _usage(self, job: Job, sent: int) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": job.n_prompt,
            "completion_tokens": sent,
            "total_tokens": job.n_prompt + sent,
        }
        if self.behaviour.details:
            usage["prompt_tokens_details"] = {"cached_tokens": job.cached}
        return usage

    def _metrics(self) -> str:
        old, label = self.behaviour.old_names, '{engine="0",model_name="fake"}'
        kv, prefix = ("gpu_cache", "gpu_prefix") if old else ("kv_cache", "prefix")
        count = self.counters
        samples = {
            "num_requests_running": len(self._running),
            "num_requests_waiting": len(self._waiting),
            f"{kv}_usage_perc": len(self._running) / self.behaviour.max_num_seqs,
            f"{prefix}_cache_queries_total": count["prompt"],
            f"{prefix}_cache_hits_total": count["cached"],
            "num_preemptions_total": count["preemptions"],
            "prompt_tokens_total": count["prompt"],
            "generation_tokens_total": count["generation"],
            "request_success_total": count["finished"],
        }
        lines = [f"vllm:{name}{label} {float(value)}" for name, value in samples.items()]
        lines.append(
            'vllm:cache_config_info{block_size="16",cache_dtype="auto",'
            'enable_prefix_caching="True",gpu_memory_utilization="0.9",num_gpu_blocks="777"} 1.0'
        )
        return "\n".join(["# TYPE vllm:num_requests_running gauge", *lines]) + "\n"


def _plain(writer: asyncio.StreamWriter, status: int, content: object) -> None:
    text = (content if isinstance(content, str) else json.dumps(content)).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\n\r\n".encode()
        + text
    )


def _chunk(writer: asyncio.StreamWriter, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    data = f"data: {text}\n\n".encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@contextmanager
def running(behaviour: Behaviour | None = None) -> Iterator[FakeServer]:
    """A fake server in a thread of its own, so that the client has its loop for itself."""
    server, started = FakeServer(behaviour or Behaviour()), threading.Event()
    handles: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        handles.append((asyncio.get_running_loop(), stop))
        await server.start()
        engine = asyncio.create_task(server.engine())
        started.set()
        await stop.wait()
        engine.cancel()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop, stop = handles[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def main() -> None:
    """Serve on a free port, which is printed, until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-step", type=float, default=0.03)
    arguments = parser.parse_args()

    async def serve() -> None:
        server = FakeServer(Behaviour(per_step=arguments.per_step))
        await server.start()
        print(server.port, flush=True)  # noqa: T201
        await server.engine()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
