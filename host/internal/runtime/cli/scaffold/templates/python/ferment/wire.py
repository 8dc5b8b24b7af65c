"""The plugin contract of Ferment, protocol revision 1, in Python.

serve(plugin) is the main function of a program. This file implements the
published contract (plugin.proto, goplugin.proto and its page).

A capability is a function (input, call) -> dict, str or None:

    def     runs in a thread of its own; watch call.stopped.
    async   runs in the event loop; it is cancelled when the caller is gone.
    async generator: each str that it yields is a piece of the answer's text,
            an Answer ends it; the default answer is the whole text.

Raise Refusal for an error with a type; any other exception becomes
runtime/invoke-failed and the plugin continues. Do not print: standard output
belongs to the handshake. Log with call.log.
"""

import asyncio
import base64
import contextlib
import datetime
import inspect
import json
import os
import re
import signal
import stat
import sys
import threading
import time
import traceback

try:
    import grpc
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    from . import goplugin_pb2 as gp
    from . import plugin_pb2 as pb
except ImportError as e:
    print(f"{sys.executable} cannot run this plugin ({e}): it needs the packages grpcio, protobuf and cryptography "
          "(Debian: python3-grpcio python3-protobuf python3-cryptography)", file=sys.stderr)
    sys.exit(2)
from .blake3 import blake3

PROTOCOL = 1
COOKIE_KEY = "FERMENT_PLUGIN"
COOKIE_VALUE = "7b1e8c0e-5d3f-4a55-9a80-2f6f1f0c9e41"
MAX_MESSAGE = 16 << 20
BLOB_THRESHOLD = 64 << 10
MAX_STRING = 8 << 20
PERMISSION_HINT = "the process may do what the plugin declares as its needs and effects and the operator grants, nothing else"
CLOSE_GRACE = 1.0  # seconds for calls in progress at the end

_OPTIONS = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]


# --- interface for authors ---------------------------------------------------


class Refusal(Exception):
    """An error with a type of the contract, such as input/invalid. The type
    determines how the host reacts."""

    def __init__(self, type, message, **details):
        super().__init__(message)
        self.type, self.details = type, details


class Answer:
    """The end of a streamed answer that is more than the text sent."""

    def __init__(self, out, usage=None, meta=None):
        self.out, self.usage, self.meta = out, usage or {}, meta or {}


class Setting:
    """One entry of the configuration: its type (str, int, float or bool), its
    default (None: required), one line about it, and whether it is a secret."""

    _FORMS = {str: ":string", int: ":int", float: ":double", bool: ":boolean"}

    def __init__(self, type=str, default=None, doc="", secret=False):
        self.type, self.default, self.doc, self.secret = type, default, doc, secret

    def form(self, name):
        """The entry of the advertised schema, as EDN text."""
        properties = ""
        if self.doc:
            properties += " :doc " + json.dumps(self.doc, ensure_ascii=False)
        if self.secret:
            properties += " :secret true"
        if self.default is not None:
            properties += " :default " + json.dumps(self.default, ensure_ascii=False)
        return f"[:{name} {{{properties.strip()}}} {self._FORMS[self.type]}]"

    def fits(self, value):
        if self.type is float:
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool))


class Capability:
    """A function and its description for the host.

    takes and gives are schemas: the name of one ("req/text"), or EDN text
    ("[:map [:text :string]]") that is published under a name made of the
    intent. effects are what a call changes or reads in the user's world."""

    def __init__(self, id, function, intents, kind="tool", takes="req/any", gives="res/any", effects=("none",),
                 tags=(), deterministic=False, max_in_flight=0, description="", metadata=None):
        if not callable(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"capability {id}: a function is def, async def, or async def with yield; not {function!r}")
        self.id, self.function, self.kind = id, function, kind
        self.intents = [intents] if isinstance(intents, str) else list(intents)
        self.takes, self.gives = takes, gives
        self.effects, self.tags = list(effects), list(tags)
        self.deterministic, self.max_in_flight = deterministic, max_in_flight
        self.description, self.metadata = description, metadata or {}
        self.streams = inspect.isasyncgenfunction(function)
        self.running = 0

    def describe(self, version, schemas):
        said = {
            "cap/id": self.id, "cap/kind": self.kind, "cap/version": version,
            "cap/intents": self.intents, "cap/can-produce": ["value"], "cap/effects": self.effects,
            "io/in-schema": self._schema("req", self.takes, schemas),
            "io/out-schema": self._schema("res", self.gives, schemas),
        }
        optional = {
            "cap/tags": self.tags, "cap/deterministic?": self.deterministic, "cap/streams?": self.streams,
            "cap/description": self.description,
            "cap/limits": {"max-in-flight": self.max_in_flight} if self.max_in_flight else None,
        }
        said.update({key: value for key, value in optional.items() if value})
        said.update(self.metadata)
        return said

    def _schema(self, prefix, text, schemas):
        if text[:1] not in "[:":
            return text
        for named_after in (*self.intents[:1], self.id):
            name = f"{prefix}/{named_after.replace('/', '.')}"
            if schemas.setdefault(name, text) == text:
                return name
        raise ValueError(f"capability {self.id}: another schema is published as {name}")


class Plugin:
    """What a program serves. settings maps names to Setting; start(config) and
    close() run at the beginning and the end, end_run(run) when a run is over;
    each may be a plain or an async function. features are host-calls and
    hot-swap, if the plugin supports them."""

    def __init__(self, name, version, capabilities, settings=None, needs=(), features=(), start=None, close=None, end_run=None):
        self.name, self.version, self.capabilities = name, version, list(capabilities)
        self.settings, self.needs, self.features = settings or {}, list(needs), set(features)
        if any(c.streams for c in self.capabilities):
            self.features.add("streaming")
        self.start, self.close, self.end_run = start, close, end_run
        self.describe()  # an invalid plugin fails before a host describes it

    def describe(self):
        schemas = {}
        capabilities = [c.describe(self.version, schemas) for c in self.capabilities]
        entries = " ".join(s.form(name) for name, s in sorted(self.settings.items()))
        said = {"plugin/name": self.name, "plugin/version": self.version, "capabilities": capabilities}
        if schemas:
            said["schemas"] = schemas
        if self.settings:
            said["config"] = {"config/v": 1, "config/schema": f"[:map {{:closed true}} {entries}]"}
        if self.needs:
            said["plugin/needs"] = self.needs
        if self.features:
            said["features"] = sorted(self.features)
        return said

    def check(self, config, secrets):
        """Returns the settings with defaults, and the errors in them."""
        given = {**{name: value for name, value in config.items() if value is not None}, **secrets}
        findings = [_finding([name], "unknown setting") for name in sorted(given) if name not in self.settings]
        values = {}
        for name, setting in self.settings.items():
            value = given.get(name, setting.default)
            if value is None and not setting.secret:
                findings.append(_finding([name], "is required"))
            elif value is not None and not setting.fits(value):
                findings.append(_finding([name], f"should be {_kind(setting.type)}"))
            values[name] = value
        return values, findings


class Call:
    """One call: its place, its limits, and the connection to the host."""

    def __init__(self, service, context, request, capability):
        self.run, self.node, self.attempt = context.run, context.node, context.attempt
        self.effects, self.effect_key = list(context.effects), context.effect_key
        self.budget = json.loads(context.budget) if context.budget else {}
        self.scope = json.loads(context.scope) if context.scope else {}
        self.path = json.loads(context.path) if context.path else []
        self.deadline = context.deadline_unix_nano / 1e9 if context.deadline_unix_nano else None
        self.request, self.capability = request, capability
        self.config, self.root = service.config, service.root
        self.stopped = threading.Event()
        self.usage, self.meta = {}, {}
        self._context, self._service = context, service

    def log(self, level, message, **values):
        """Writes a line with the ids of the call to the log of the plugin."""
        log(level, message, run=self.run, node=self.node, capability=self.capability.id, attempt=self.attempt, **values)

    async def ask(self, intent, input, capability=None, **fields):
        """Calls another intent through the host, within the limits of this call,
        and returns the value of the answer. Errors are Refusal."""
        task = {"intent": intent, **({"cap/id": capability} if capability else {})}
        request = {**fields, "proto": 1, "trace": self.request.get("trace", {"id": "plugin"}), "task": task, "input": input}
        context = pb.CallContext()
        context.CopyFrom(self._context)
        context.stack.append(self.capability.id)
        return await self._service.host().invoke(context, request)

    async def state(self, op, key, value=None, if_version=None):
        """get, put or delete on the store of the plugin: (value, version,
        conflict). It outlives a restart of this process."""
        return await self._service.host().state(op, key, value, if_version)

    def wait(self, awaitable):
        """Runs ask or state from a plain function."""
        return asyncio.run_coroutine_threadsafe(awaitable, self._service.loop).result()


def need(input, key, type):
    """Returns input[key], which must be of a type; else input/invalid."""
    value = input.get(key) if isinstance(input, dict) else None
    if not isinstance(value, type) or (isinstance(value, bool) and type is not bool):
        raise Refusal("input/invalid", f"input [:{key}]: should be {_kind(type)}", path=[key])
    return value


_log_lock = threading.Lock()
_levels = ("trace", "debug", "info", "warn", "error")
_log_level = "info"


def log(level, message, **values):
    """One line of the log: a JSON object on standard error. A level of another
    name is info. It raises no exception: a log line must not end a call."""
    if level not in _levels:
        level = "warn" if level == "warning" else "info"
    if _levels.index(level) < _levels.index(_log_level):
        return
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    said = {"@level": level, "@message": message, "@timestamp": now}
    try:
        line = json.dumps({**said, **values}, ensure_ascii=False, default=str)
    except Exception as e:
        line = json.dumps({**said, "@message": str(message), "left-out": _text(e)})
    with _log_lock, contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


# --- payloads ----------------------------------------------------------------

_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F)}
_ESCAPES.update({ord("\\"): "\\\\", ord('"'): '\\"', 10: "\\n", 13: "\\r", 9: "\\t", 8: "\\b", 12: "\\f"})


def blob_hash(text):
    """Returns the name of a string: the hash of its canonical EDN text."""
    return "b3:" + blake3(('"' + text.translate(_ESCAPES) + '"').encode()).hex()


def _protocol(message):
    return Refusal("runtime/protocol", message)


def _once(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("an object has the same name twice")
    return out


def _no_constant(name):
    raise ValueError(f"{name} is no value")


def decode(payload, blobs=()):
    """Returns the value of a payload, with blobs replacing their names."""
    if payload is None:
        raise _protocol("decode payload: the payload is missing")
    if payload.encoding == "edn" and payload.body.strip() == b"{}":
        return {}  # the one text that is the same in both encodings
    if payload.encoding != "json":
        raise _protocol(f"payload: unknown encoding {payload.encoding!r}, this plugin knows 'json'")
    try:
        value = json.loads(payload.body.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise _protocol(f"decode payload: {e}") from None
    if b"#tag" not in payload.body and b"\\u" not in payload.body:
        return value
    return _restore(value, {b.hash: b.body for b in blobs}, {})


def _restore(value, bodies, texts):
    if isinstance(value, list):
        return [_restore(item, bodies, texts) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"#tag", "#value"} and str(value["#tag"]).startswith("ferment/"):
        return _blob(value, bodies, texts)
    return {key: _restore(item, bodies, texts) for key, item in value.items()}


def _blob(reference, bodies, texts):
    if reference["#tag"] != "ferment/value":
        raise Refusal("runtime/invalid-result", f"decode payload: the tag #{reference['#tag']} is reserved")
    name = reference["#value"]
    if name not in texts:
        if not isinstance(name, str) or name not in bodies:
            raise _protocol(f"decode payload: no blob was received for the reference {str(name)[:80]}")
        try:
            text = bodies[name].decode()
        except UnicodeDecodeError as e:
            raise _protocol(f"blob {name[:80]}: {e}") from None
        if blob_hash(text) != name:
            raise _protocol(f"blob {name[:80]}: its content has another hash")
        texts[name] = text
    return texts[name]


def encode(value):
    """Returns the payload of a value, and the blobs of its long strings, which
    must be sent before it."""
    blobs = {}
    text = json.dumps(_extract(value, blobs), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text.encode()
    size = len(body) + sum(len(b.body) for b in blobs.values())
    if size > MAX_MESSAGE:
        raise _protocol(f"encode payload: {size} bytes, the limit is {MAX_MESSAGE}")
    return pb.Payload(encoding="json", body=body), list(blobs.values())


def _extract(value, blobs):
    if isinstance(value, str):
        if len(value) * 4 <= BLOB_THRESHOLD:
            return value
        body = value.encode()
        if len(body) <= BLOB_THRESHOLD:
            return value
        if len(body) > MAX_STRING:
            raise _protocol(f"encode payload: a string of {len(body)} bytes, the limit is {MAX_STRING}")
        name = blob_hash(value)
        blobs[name] = pb.Blob(hash=name, body=body)
        return {"#tag": "ferment/value", "#value": name}
    if isinstance(value, dict):
        if "#tag" in value:
            raise Refusal("runtime/invalid-result", "encode payload: the name #tag is reserved")
        return {str(key): _extract(item, blobs) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)  # a fixed order, so that equal answers are equal
    if isinstance(value, (list, tuple)):
        return [_extract(item, blobs) for item in value]
    return value


def _plain(value):
    """Returns a payload for a message without blobs."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return pb.Payload(encoding="json", body=text.encode())


def _kind(type):
    """Returns the name of a type for messages."""
    known = {str: "a string", int: "an integer", float: "a number", bool: "a boolean", dict: "a map", list: "a vector"}
    return known.get(type, type.__name__)


def _finding(path, message):
    return {"path": path, "message": message}


def _text(error):
    """Returns the text of an exception, which can have none and can contain
    surrogates, as the names of files do."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception as e:
        return f"its text cannot be made ({type(e).__name__})"


def _failure(error):
    """Returns an exception as the error map of the contract. Details that cannot
    be sent are left out, so that the error keeps its type and the call ends."""
    said = _described(error)
    try:
        encode(said)
    except Exception as e:
        said["details"] = {"left-out": f"{type(e).__name__}: {_text(e)}"[:500]}
    return said


def _described(error):
    if isinstance(error, Refusal):
        said = {"type": str(error.type), "message": _text(error)[:500]}
        return {**said, "details": error.details} if error.details else said
    stack = traceback.format_exception(type(error), error, error.__traceback__)
    log("error", "call failed", error=_text(error), stack="".join(stack))
    message = ": ".join(filter(None, (type(error).__name__, _text(error))))[:500]
    said = {"type": "runtime/invoke-failed", "message": message, "details": {"stack": _own_frames(error)}}
    return {**said, "hint": PERMISSION_HINT} if isinstance(error, PermissionError) else said


def _own_frames(error):
    """Returns the stack of an exception from the innermost line of the author's
    own files on, which are beside this package; the log has the whole stack."""
    package = os.path.dirname(os.path.abspath(__file__))
    frames = [(os.path.dirname(os.path.abspath(f.filename)), f) for f in reversed(traceback.extract_tb(error.__traceback__))]
    frames = [(folder, f) for folder, f in frames if folder != package]
    own = [at for at, (folder, _) in enumerate(frames) if folder == os.path.dirname(package)]
    return [f"{f.name} ({f.filename}:{f.lineno}): {f.line}" for _, f in frames[own[0] if own else 0:][:30]]


# --- the services ------------------------------------------------------------


class _Host:
    """The client of the host service."""

    def __init__(self, channel):
        self._channel = channel
        self._invoke = channel.unary_stream(
            "/ferment.plugin.v1.Host/Invoke",
            request_serializer=pb.InvokeRequest.SerializeToString, response_deserializer=pb.InvokeEvent.FromString)
        self._state = channel.unary_unary(
            "/ferment.plugin.v1.Host/State",
            request_serializer=pb.StateRequest.SerializeToString, response_deserializer=pb.StateResponse.FromString)

    async def invoke(self, context, request):
        payload, blobs = encode(request)
        came = []
        async for event in self._invoke(pb.InvokeRequest(context=context, request=payload, blobs=blobs)):
            kind = event.WhichOneof("event")
            if kind == "blob":
                came.append(event.blob)
            elif kind == "error":
                _raise(decode(event.error, came))
            elif kind == "result":
                answer = decode(event.result, came)
                if answer.get("error"):
                    _raise(answer["error"])
                return answer.get("result", {}).get("out")
        raise _protocol("host call: the stream ended without a result or an error")

    async def state(self, op, key, value, if_version):
        request = pb.StateRequest(op=pb.StateOp.Value("STATE_OP_" + op.upper()), key=key, if_version=if_version)
        # The host answers in the encoding of the value, so every request has one.
        request.value.CopyFrom(_plain(value))
        answer = await self._state(request)
        if answer.HasField("error"):
            _raise(decode(answer.error))
        held = decode(answer.value) if answer.HasField("value") else None
        return held, answer.version, answer.conflict

    async def close(self):
        await self._channel.close()


def _raise(error):
    raise Refusal(error.get("type", "runtime/invoke-failed"), error.get("message", ""), **error.get("details", {}))


class _Service:
    """The services that the host calls."""

    def __init__(self, plugin, certificate, key, host_certificate):
        self.plugin = plugin
        self.config, self.root = {}, ""
        self.loop = asyncio.get_running_loop()
        self._tls = (host_certificate, key, certificate)
        self._host = None
        self._state, self._reason = pb.HEALTH_STATE_STARTING, "not configured"
        self._changed = asyncio.Event()
        self._tasks = set()
        self._brokered = {}
        self.over = asyncio.Event()
        self.exit_code = 0

    def host(self):
        if self._host is None:
            raise Refusal("runtime/not-ready", "host call: the plugin is not connected to a host")
        return self._host

    def end(self, code=0):
        if not self.over.is_set():
            self.exit_code = code
            self.over.set()

    def handlers(self):
        def unary(function, request, answer):
            return grpc.unary_unary_rpc_method_handler(
                function, request_deserializer=request.FromString, response_serializer=answer.SerializeToString)

        def stream(function, request, answer):
            return grpc.unary_stream_rpc_method_handler(
                function, request_deserializer=request.FromString, response_serializer=answer.SerializeToString)

        def both(function, message):
            return grpc.stream_stream_rpc_method_handler(
                function, request_deserializer=message.FromString, response_serializer=message.SerializeToString)

        services = {
            "ferment.plugin.v1.Lifecycle": {
                "Describe": unary(self.describe, pb.DescribeRequest, pb.DescribeResponse),
                "Configure": unary(self.configure, pb.ConfigureRequest, pb.ConfigureResponse),
                "Health": stream(self.health, pb.HealthRequest, pb.HealthEvent),
                "EndRun": unary(self.end_run, pb.EndRunRequest, pb.EndRunResponse),
                "Drain": unary(self.drain, pb.DrainRequest, pb.DrainResponse),
            },
            "ferment.plugin.v1.Capability": {"Invoke": stream(self.invoke, pb.InvokeRequest, pb.InvokeEvent)},
            "plugin.GRPCBroker": {"StartStream": both(self.broker, gp.ConnInfo)},
            "plugin.GRPCController": {"Shutdown": unary(self.shutdown, gp.Empty, gp.Empty)},
        }
        return [grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items()]

    # Lifecycle

    async def describe(self, request, context):
        try:
            findings = []
            if request.HasField("config"):
                findings = self.plugin.check(decode(request.config), {})[1]
            answer = pb.DescribeResponse(description=_plain(self.plugin.describe()))
            if findings:
                answer.findings.CopyFrom(_plain(findings))
            return answer
        except Exception as e:  # every error is a response
            return pb.DescribeResponse(error=_plain(_failure(e)))

    async def configure(self, request, context):
        global _log_level
        try:
            if self._state != pb.HEALTH_STATE_STARTING:
                raise _protocol("configure: the plugin is already configured, or is shutting down")
            if request.log_level in _levels:
                _log_level = request.log_level
            config = decode(request.config) if request.HasField("config") else {}
            secrets = decode(request.secrets) if request.HasField("secrets") else {}
            # A path is written as canonical EDN: [:api-key].
            secrets = {path.strip("[]").lstrip(":"): text for path, text in secrets.items()}
            values, findings = self.plugin.check(config, secrets)
            answer = pb.ConfigureResponse(description=_plain(self.plugin.describe()))
            if findings:
                answer.findings.CopyFrom(_plain(findings))
                return answer
            if request.broker_id:
                self._host = await self._dial(request.broker_id)
            self.config, self.root = values, request.root
            await _run(self.plugin.start, values)
            self._set(pb.HEALTH_STATE_READY, "")
            return answer
        except Exception as e:
            if self._host is not None and self._state == pb.HEALTH_STATE_STARTING:
                await self._host.close()
                self._host = None
            said = _failure(e)
            if said["type"] == "runtime/invoke-failed":
                said["type"] = "runtime/start-failed"
            return pb.ConfigureResponse(error=_plain(said))

    def _set(self, state, reason):
        self._state, self._reason = state, reason
        self._changed.set()
        self._changed = asyncio.Event()

    async def health(self, request, context):
        while not self.over.is_set():
            changed = self._changed
            await context.write(pb.HealthEvent(state=self._state, reason=self._reason, in_flight=len(self._tasks)))
            if request.once:
                return
            await changed.wait()

    async def end_run(self, request, context):
        await _run(self.plugin.end_run, request.run)
        return pb.EndRunResponse()

    async def drain(self, request, context):
        self._set(pb.HEALTH_STATE_DRAINING, "draining")
        running = set(self._tasks)
        if running:
            left = max(0.0, request.deadline_unix_nano / 1e9 - time.time())
            await asyncio.wait(running, timeout=left)
        unfinished = [task for task in running if not task.done()]
        for task in unfinished:
            task.cancel("drained")
        return pb.DrainResponse(unfinished=len(unfinished))

    # Capability

    async def invoke(self, request, context):
        out = _Events(context)
        try:
            answer = await self._answer(request, out)
        except asyncio.CancelledError as e:
            error = RuntimeError("the call waited for a task that was cancelled")
            if e.args == ("drained",):
                error = Refusal("runtime/not-ready", "the call did not end before the deadline of the drain")
            elif context.cancelled() or self.over.is_set():
                raise  # the caller is gone
            await out.last("error", _failure(error))
            return
        except (Exception, SystemExit) as e:
            await out.last("error", _failure(e))
            return
        try:
            await out.last("result", answer)
        except Exception as e:  # not JSON, or too large
            await out.last("error", _failure(e))

    async def _answer(self, request, out):
        if self._state not in (pb.HEALTH_STATE_READY, pb.HEALTH_STATE_DEGRADED):
            raise Refusal("runtime/not-ready", f"invoke: the plugin is {self._reason or 'not ready'}")
        envelope = decode(request.request if request.HasField("request") else None, request.blobs)
        if not isinstance(envelope, dict) or not isinstance(envelope.get("task"), dict):
            raise _protocol("invoke: the request is no envelope: it has no :task")
        capability = self._find(envelope["task"])
        if capability.max_in_flight and capability.running >= capability.max_in_flight:
            raise Refusal("runtime/overloaded", f"invoke {capability.id}: as many calls are in flight as it takes")
        call = Call(self, request.context, envelope, capability)
        task = asyncio.current_task()
        self._tasks.add(task)
        capability.running += 1
        try:
            async with _deadline(call.deadline):
                answer = await self._work(capability, envelope.get("input"), call, out)
        finally:
            call.stopped.set()
            capability.running -= 1
            self._tasks.discard(task)
        usage = {"mode": "deterministic" if capability.deterministic else "live", **call.usage, **answer.usage}
        said = {"result": {"type": "value", "out": _as_out(answer.out), "usage": usage}}
        meta = {**call.meta, **answer.meta}
        return {**said, "invoke/meta": meta} if meta else said

    def _find(self, task):
        id, intent = task.get("cap/id"), task.get("intent")
        for capability in self.plugin.capabilities:
            if capability.id == id or (id is None and intent in capability.intents):
                return capability
        raise Refusal("cap/not-found", f"invoke: this plugin has no capability {id or 'for ' + str(intent)}")

    async def _work(self, capability, input, call, out):
        function = capability.function
        if capability.streams:
            text = ""
            async for piece in function(input, call):
                if isinstance(piece, Answer):
                    return piece
                text += piece
                await out.delta({"kind": "text", "text": piece})
            return Answer({"text": text})
        if inspect.iscoroutinefunction(function):
            answer = await function(input, call)
        else:
            answer = await self._in_thread(function, input, call)
        return answer if isinstance(answer, Answer) else Answer(answer)

    async def _in_thread(self, function, input, call):
        """A plain function cannot be cancelled: the call counts as running
        until the function has returned."""
        work = asyncio.ensure_future(asyncio.to_thread(_without_exit, function, input, call))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            call.stopped.set()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()  # seen
            raise

    # go-plugin

    async def broker(self, requests, context):
        async for info in requests:
            self._listening(info.service_id).set_result(info) if not self._listening(info.service_id).done() else None

    def _listening(self, id):
        return self._brokered.setdefault(id, self.loop.create_future())

    async def _dial(self, id):
        try:
            info = await asyncio.wait_for(asyncio.shield(self._listening(id)), 5)
        except asyncio.TimeoutError:
            raise Refusal("runtime/start-failed", f"configure: the host said nothing about its broker id {id}") from None
        target = ("unix:" if info.network == "unix" else "") + info.address
        credentials = grpc.ssl_channel_credentials(*self._tls)
        options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.enable_retries", 0), *_OPTIONS]
        return _Host(grpc.aio.secure_channel(target, credentials, options=options))

    async def shutdown(self, request, context):
        self.loop.call_soon(self.end)
        return gp.Empty()

    async def close(self):
        """Cancels calls in progress, then closes the plugin, each with a time limit."""
        self._set(pb.HEALTH_STATE_DRAINING, "ending")
        running = set(self._tasks)
        for task in running:
            task.cancel("drained")
        if running:
            await asyncio.wait(running, timeout=CLOSE_GRACE)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_run(self.plugin.close), CLOSE_GRACE)
        if self._host is not None:
            await self._host.close()


class _Events:
    """The events of one call, numbered from 1."""

    def __init__(self, context):
        self._context, self._seq, self._deltas = context, 0, 0

    async def delta(self, piece):
        self._deltas += 1
        await self._send("delta", {**piece, "seq": self._deltas})

    async def last(self, kind, value):
        await self._send(kind, value)

    async def _send(self, kind, value):
        payload, blobs = encode(value)
        for blob in blobs:
            self._seq += 1
            await self._context.write(pb.InvokeEvent(blob=blob, seq=self._seq))
        self._seq += 1
        await self._context.write(pb.InvokeEvent(**{kind: payload}, seq=self._seq))


@contextlib.asynccontextmanager
async def _deadline(at):
    """Ends the work at a deadline with a Refusal, which the caller receives."""
    if at is None:
        yield
        return
    task, hit = asyncio.current_task(), []

    def cut():
        hit.append(True)
        task.cancel()

    timer = asyncio.get_running_loop().call_later(max(0.0, at - time.time()), cut)
    try:
        yield
    except asyncio.CancelledError as e:
        if hit and not e.args:
            raise Refusal("timeout/hard", "the deadline passed") from None
        raise
    finally:
        timer.cancel()


def _without_exit(function, *args):
    """Calls a function in a thread: SystemExit in a task would end the event loop."""
    try:
        return function(*args)
    except SystemExit as e:
        raise RuntimeError(f"the function called sys.exit({e.code!r})") from e


def _as_out(value):
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    return {"text": value} if isinstance(value, str) else {"value": value}


async def _run(function, *args):
    if function is not None:
        done = function(*args)
        if inspect.isawaitable(done):
            await done


# --- the process -------------------------------------------------------------


def serve(plugin):
    """Runs plugin as a plugin process and never returns."""
    if os.environ.get(COOKIE_KEY) != COOKIE_VALUE:
        print(f"{plugin.name} {plugin.version} is a Ferment plugin: name it in the command of a plugin block in "
              "ferment.hcl, a ferment host starts it.", file=sys.stderr)
        os._exit(2)
    announced = [int(n) for n in re.findall(r"\d+", os.environ.get("PLUGIN_PROTOCOL_VERSIONS", ""))]
    if announced and PROTOCOL not in announced:
        older = "the plugin" if max(announced) > PROTOCOL else "the host"
        print(f"{plugin.name} {plugin.version}: :runtime/protocol: the plugin speaks protocol {PROTOCOL}, the host "
              f"{', '.join(map(str, announced))}: upgrade {older}", file=sys.stderr)
        os._exit(2)
    code = 1
    try:
        code = asyncio.run(_main(plugin))
    except Exception as e:
        log("error", f"{plugin.name} cannot be served", error=repr(e), stack=traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(code)  # ends the threads of calls that ignore stopped


async def _main(plugin):
    loop = asyncio.get_running_loop()
    host_certificate = os.environ.get("PLUGIN_CLIENT_CERT", "").encode()
    if not host_certificate:
        raise RuntimeError("the host sent no certificate: mutual TLS is required")
    certificate, key, raw = _certificate()
    service = _Service(plugin, certificate, key, host_certificate)
    server = grpc.aio.server(options=[*_OPTIONS, ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(service.handlers())
    directory = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or "/tmp"
    path = os.path.join(directory, f"py{os.getpid()}.sock")
    credentials = grpc.ssl_server_credentials([(key, certificate)], host_certificate, require_client_auth=True)
    server.add_secure_port("unix:" + path, credentials)
    await server.start()
    for name in [COOKIE_KEY, *(name for name in os.environ if name.startswith("PLUGIN_"))]:
        os.environ.pop(name, None)  # for the handshake only, not for child processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the host stops plugins
    loop.add_signal_handler(signal.SIGTERM, service.end, 128 + signal.SIGTERM)
    threading.Thread(target=_watch_stdin, args=(loop, service), daemon=True).start()
    print(f"1|{PROTOCOL}|unix|{path}|grpc|{base64.b64encode(raw).decode().rstrip('=')}", flush=True)
    await service.over.wait()
    await service.close()
    await server.stop(0.1)
    with contextlib.suppress(OSError):
        os.unlink(path)
    return service.exit_code


def _watch_stdin(loop, service):
    """Waits for the end of standard input, which means that the host is gone. Only
    pipes and sockets report it."""
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    loop.call_soon_threadsafe(service.end)
    time.sleep(3 * CLOSE_GRACE)
    os._exit(0)  # the event loop is blocked


def _certificate():
    """Returns a certificate of this process: PEM, its key, and the DER bytes for
    the host."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.utcnow()
    usage = x509.KeyUsage(digital_signature=True, key_encipherment=True, key_agreement=True, key_cert_sign=True,
                          content_commitment=False, data_encipherment=False, crl_sign=False,
                          encipher_only=False, decipher_only=False)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1)).not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256()))
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem, secret, certificate.public_bytes(serialization.Encoding.DER)
