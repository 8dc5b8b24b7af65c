// The plugin contract of Ferment, protocol revision 1, for Node.
//
// Every program of the project shares this folder. "ferment plugin runtime"
// replaces its files with those of the installed ferment, so edits here are
// lost; your code belongs beside this folder.
//
// serve(plugin) is the main function of a program. This file implements the
// published contract (plugin.proto, goplugin.proto and its page).
//
// A capability is an async function (input, call) => object, string or
// undefined. An async generator streams: each string that it yields is a piece
// of the answer's text, and what it returns, if anything, is the whole answer.
// call.signal is aborted when the caller is gone. Long computations belong in a
// worker thread: the event loop must answer health probes.
//
// Throw a Refusal for an error with a type; any other error becomes
// runtime/invoke-failed and the plugin continues. Do not print (console.log):
// standard output belongs to the handshake. Log with call.log.

import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { blake3 } from "@noble/hashes/blake3.js";

import { newCertificate } from "./certificate.mjs";

export const PROTOCOL = 1;
export const COOKIE_KEY = "FERMENT_PLUGIN";
export const COOKIE_VALUE = "7b1e8c0e-5d3f-4a55-9a80-2f6f1f0c9e41";
export const MAX_MESSAGE = 16 << 20;
export const BLOB_THRESHOLD = 64 << 10;
export const MAX_DEPTH = 128;
const MAX_STRING = 8 << 20;
const PERMISSION_HINT = "the process may do what the plugin declares as its needs and effects and the operator grants, nothing else";
const CLOSE_GRACE = 1000; // ms for calls in progress at the end

const here = path.dirname(fileURLToPath(import.meta.url));
const definitions = loader.loadSync([path.join(here, "plugin.proto"), path.join(here, "goplugin.proto")], {
  keepCase: true, longs: String, enums: String, defaults: true, oneofs: true,
});
const api = grpc.loadPackageDefinition(definitions);
const limits = { "grpc.max_receive_message_length": MAX_MESSAGE, "grpc.max_send_message_length": MAX_MESSAGE };

// --- interface for authors --------------------------------------------------

/** An error with a type of the contract, such as input/invalid. The type
 * determines how the host reacts. */
export class Refusal extends Error {
  constructor(type, message, details = {}) {
    super(message);
    this.type = type;
    this.details = details;
  }
}

/** Returns input[key], which must be of a type ("string", "number", "boolean",
 * "object"); else throws input/invalid. */
export function need(input, key, type) {
  const value = isObject(input) ? input[key] : undefined;
  if (typeof value !== type || value === null) {
    throw new Refusal("input/invalid", `input [:${key}]: should be a ${type}`, { path: [key] });
  }
  return value;
}

const levels = ["trace", "debug", "info", "warn", "error"];
let logLevel = "info";

/** One line of the log: a JSON object on standard error. A level of another name
 * is info. It throws nothing: a log line must not end a call. */
export function log(level, message, values = {}) {
  if (!levels.includes(level)) level = level === "warning" ? "warn" : "info";
  if (levels.indexOf(level) < levels.indexOf(logLevel)) return;
  const said = { "@level": level, "@message": message, "@timestamp": new Date().toISOString() };
  let line;
  try {
    line = JSON.stringify({ ...said, ...values });
  } catch (e) {
    line = JSON.stringify({ ...said, "@message": textOf(message), "left-out": textOf(e) });
  }
  process.stderr.write(line + "\n");
}

/** The text of a thrown value, which can have none, and whose text can have half
 * a surrogate pair. */
function textOf(value) {
  try {
    return String(value instanceof Refusal ? value.message : value).toWellFormed();
  } catch {
    return "it has no text";
  }
}

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const isGenerator = (f) => f.constructor.name === "AsyncGeneratorFunction";
const protocol = (message) => new Refusal("runtime/protocol", message);

/** One call: its place, its limits, and the connection to the host. */
class Call {
  constructor(service, context, request, capability) {
    const read = (bytes, fallback) => (bytes.length ? JSON.parse(bytes.toString()) : fallback);
    Object.assign(this, {
      run: context.run, node: context.node, attempt: context.attempt, effects: context.effects,
      effectKey: context.effect_key, budget: read(context.budget, {}), scope: read(context.scope, {}),
      path: read(context.path, []), request, capability, config: service.config, root: service.root,
      usage: {}, meta: {},
    });
    this.deadline = Number(context.deadline_unix_nano) / 1e6 || undefined; // ms since 1970
    this.stop = new AbortController();
    this.signal = this.stop.signal;
    this.context = context;
    this.service = service;
  }

  /** Writes a line with the ids of the call to the log. */
  log(level, message, values = {}) {
    log(level, message, { run: this.run, node: this.node, capability: this.capability.id, attempt: this.attempt, ...values });
  }

  /** Calls another intent through the host, within the limits of this call, and
   * returns the value of the answer. */
  ask(intent, input, { capability, ...fields } = {}) {
    const task = capability ? { intent, "cap/id": capability } : { intent };
    const trace = this.request.trace ?? { id: "plugin" };
    const context = { ...this.context, stack: [...this.context.stack, this.capability.id] };
    return this.service.host.invoke(context, { ...fields, proto: 1, trace, task, input }, this.signal);
  }

  /** get, put or delete on the store of the plugin: { value, version,
   * conflict }. It outlives a restart of this process. */
  state(op, key, value, ifVersion) {
    return this.service.host.state(op, key, value, ifVersion);
  }
}

// --- description for the host -------------------------------------------------

const forms = { string: ":string", integer: ":int", number: ":double", boolean: ":boolean" };

/** The advertised schema of the settings, as EDN text. */
function settingsForm(settings) {
  const entries = Object.entries(settings).sort().map(([name, s]) => {
    const properties = [];
    if (s.doc) properties.push(":doc " + JSON.stringify(s.doc));
    if (s.secret) properties.push(":secret true");
    if (s.default !== undefined) {
      const whole = s.type === "number" && Number.isInteger(s.default);
      properties.push(":default " + JSON.stringify(s.default) + (whole ? ".0" : ""));
    }
    return `[:${name} {${properties.join(" ")}} ${forms[s.type ?? "string"]}]`;
  });
  return `[:map {:closed true} ${entries.join(" ")}]`;
}

const fits = (setting, value) =>
  setting.type === "integer" ? Number.isInteger(value) : typeof value === (setting.type ?? "string");

function checkSettings(settings, config, secrets) {
  const given = { ...config, ...secrets };
  for (const name of Object.keys(given)) if (given[name] === null) delete given[name];
  const findings = Object.keys(given).sort()
    .filter((name) => !Object.hasOwn(settings, name))
    .map((name) => ({ path: [name], message: "unknown setting" }));
  const values = {};
  for (const [name, s] of Object.entries(settings)) {
    const value = given[name] ?? s.default;
    if (value === undefined && !s.secret) findings.push({ path: [name], message: "is required" });
    else if (value !== undefined && !fits(s, value)) findings.push({ path: [name], message: `should be a ${s.type ?? "string"}` });
    values[name] = value;
  }
  return { values, findings };
}

/** Throws if a plugin is invalid. */
function check(plugin) {
  for (const c of plugin.capabilities) {
    if (typeof c.run !== "function" || c.run.constructor.name === "GeneratorFunction") {
      throw new TypeError(`capability ${c.id}: run must be a function, an async one, or an async generator`);
    }
    if (!Array.isArray(c.intents)) throw new TypeError(`capability ${c.id}: intents must be a list of names`);
  }
  describe(plugin);
}

function describe(plugin) {
  const features = new Set(plugin.features);
  if (plugin.capabilities.some((c) => isGenerator(c.run))) features.add("streaming");
  const schemas = {};
  const schema = (prefix, text, c) => {
    if (!/^[[:]/.test(text)) return text; // the name of one
    for (const namedAfter of [...c.intents.slice(0, 1), c.id]) {
      const name = `${prefix}/${namedAfter.replace("/", ".")}`;
      schemas[name] ??= text;
      if (schemas[name] === text) return name;
    }
    throw new Error(`capability ${c.id}: another schema is published under its name`);
  };
  const capabilities = plugin.capabilities.map((c) => ({
    "cap/id": c.id, "cap/kind": c.kind ?? "tool", "cap/version": plugin.version, "cap/intents": c.intents,
    "cap/can-produce": ["value"], "cap/effects": c.effects ?? ["none"],
    "io/in-schema": schema("req", c.takes ?? "req/any", c),
    "io/out-schema": schema("res", c.gives ?? "res/any", c),
    ...(c.tags && { "cap/tags": c.tags }),
    ...(c.deterministic && { "cap/deterministic?": true }),
    ...(isGenerator(c.run) && { "cap/streams?": true }),
    ...(c.description && { "cap/description": c.description }),
    ...(c.maxInFlight && { "cap/limits": { "max-in-flight": c.maxInFlight } }),
    ...c.metadata,
  }));
  return {
    "plugin/name": plugin.name, "plugin/version": plugin.version, capabilities,
    ...(Object.keys(schemas).length && { schemas }),
    ...(plugin.settings && { config: { "config/v": 1, "config/schema": settingsForm(plugin.settings) } }),
    ...(plugin.needs && { "plugin/needs": plugin.needs }),
    ...(features.size && { features: [...features].sort() }),
  };
}

// --- payloads -----------------------------------------------------------------

const escapes = { "\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f" };
const escape = (c) => escapes[c] ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");

/** The name of a string: the hash of its canonical EDN text. */
export function blobHash(text) {
  // eslint-disable-next-line no-control-regex
  const canonical = '"' + text.replace(/[\\"\u0000-\u001f\u007f]/g, escape) + '"';
  return "b3:" + Buffer.from(blake3(Buffer.from(canonical))).toString("hex");
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns the value of a payload, with blobs replacing their names. */
export function decode(payload, blobs = []) {
  if (!payload) throw protocol("decode payload: the payload is missing");
  const body = payload.body;
  if (payload.encoding === "edn" && body.toString().trim() === "{}") return {}; // the same text in both encodings
  if (payload.encoding !== "json") {
    throw protocol(`payload: unknown encoding ${JSON.stringify(payload.encoding)}, this plugin knows "json"`);
  }
  try {
    const value = JSON.parse(utf8.decode(body));
    if (tooDeep(value)) throw protocol(`decode payload: nested deeper than ${MAX_DEPTH}`);
    if (!body.includes("#tag") && !body.includes("\\u")) return value;
    return restore(value, new Map(blobs.map((b) => [b.hash, b.body])), new Map());
  } catch (e) {
    throw e instanceof Refusal ? e : protocol(`decode payload: ${e.message}`);
  }
}

/** Whether a value nests deeper than a peer may send. JSON.parse has no limit. */
function tooDeep(value) {
  let level = [value];
  for (let depth = 0; depth <= MAX_DEPTH; depth++) {
    level = level.flatMap((v) => (typeof v === "object" && v !== null ? Object.values(v) : []));
    if (level.length === 0) return false;
  }
  return true;
}

function restore(value, bodies, texts) {
  if (Array.isArray(value)) return value.map((v) => restore(v, bodies, texts));
  if (!isObject(value)) return value;
  const names = Object.keys(value);
  if (names.length === 2 && "#value" in value && String(value["#tag"]).startsWith("ferment/")) {
    return blobText(value, bodies, texts);
  }
  return Object.fromEntries(names.map((name) => [name, restore(value[name], bodies, texts)]));
}

function blobText(reference, bodies, texts) {
  if (reference["#tag"] !== "ferment/value") {
    throw new Refusal("runtime/invalid-result", `decode payload: the tag #${reference["#tag"]} is reserved`);
  }
  const name = String(reference["#value"]);
  if (!texts.has(name)) {
    if (!bodies.has(name)) throw protocol(`decode payload: no blob was received for the reference ${name.slice(0, 80)}`);
    const text = utf8.decode(bodies.get(name));
    if (blobHash(text) !== name) throw protocol(`blob ${name.slice(0, 80)}: its content has another hash`);
    texts.set(name, text);
  }
  return texts.get(name);
}

const inline = (value) => ({ encoding: "json", body: Buffer.from(JSON.stringify(value ?? null)) });

/** Returns the payload of a value, and the blobs of its long strings, which must
 * be sent before it. */
export function encode(value) {
  const blobs = new Map();
  const payload = inline(extract(value, blobs));
  let size = payload.body.length;
  for (const b of blobs.values()) size += b.body.length;
  if (size > MAX_MESSAGE) throw protocol(`encode payload: ${size} bytes, the limit is ${MAX_MESSAGE}`);
  return { payload, blobs: [...blobs.values()] };
}

function extract(value, blobs) {
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new Refusal("runtime/invalid-result", "encode payload: a string with half a surrogate pair");
    const size = Buffer.byteLength(value);
    if (size <= BLOB_THRESHOLD) return value;
    if (size > MAX_STRING) throw protocol(`encode payload: a string of ${size} bytes, the limit is ${MAX_STRING}`);
    const hash = blobHash(value);
    blobs.set(hash, { hash, body: Buffer.from(value) });
    return { "#tag": "ferment/value", "#value": hash };
  }
  if (typeof value === "number" && !Number.isFinite(value)) throw new Refusal("runtime/invalid-result", `encode payload: ${value} is no value`);
  if (value instanceof Set) return [...value].map((v) => extract(v, blobs));
  if (value instanceof Map) return extract(Object.fromEntries(value), blobs);
  if (Array.isArray(value)) return value.map((v) => extract(v, blobs));
  if (typeof value?.toJSON === "function") return extract(value.toJSON(), blobs); // a Date, for example
  if (!isObject(value)) return value;
  if ("#tag" in value) throw new Refusal("runtime/invalid-result", "encode payload: the name #tag is reserved");
  return Object.fromEntries(Object.entries(value).map(([key, v]) => [key, extract(v, blobs)]));
}

const runtime = new URL(".", import.meta.url).href;

/** Returns the stack from the innermost line of the author's own files on; the log
 * has the whole stack. */
function ownFrames(stack) {
  const foreign = /node:|<anonymous>|node_modules/;
  const frames = stack.filter((line) => line.startsWith("    at ") && !line.includes(runtime)).map((line) => line.slice(7));
  const first = frames.findIndex((f) => !foreign.test(f));
  return frames.slice(Math.max(first, 0)).slice(0, 30);
}

/** Returns an error as the error map of the contract. Details that cannot be sent
 * are left out, so that the error keeps its type and the call ends. */
export function failure(error) {
  const said = { type: "runtime/invoke-failed", message: textOf(error).slice(0, 500).toWellFormed() };
  try {
    if (error instanceof Refusal) said.type = error.type;
    const details = error instanceof Refusal ? error.details ?? {} : { stack: stackOf(error) };
    if (["EPERM", "EACCES"].includes(error?.code)) said.hint = PERMISSION_HINT;
    if (Object.keys(details).length) said.details = details;
    encode(said);
  } catch (e) {
    said.details = { "left-out": textOf(e).slice(0, 500).toWellFormed() };
  }
  return said;
}

/** Returns the stack of an error from the author's own files on, and logs it. */
function stackOf(error) {
  const stack = textOf(error?.stack ?? error).split("\n");
  log("error", "call failed", { error: textOf(error), stack: stack.join("\n") });
  return ownFrames(stack);
}

const rethrow = (e) => {
  throw new Refusal(e.type ?? "runtime/invoke-failed", e.message ?? "", e.details ?? {});
};

// --- the services ---------------------------------------------------------------

/** The client of the host service. */
class Host {
  constructor(address, credentials) {
    const options = { ...limits, "grpc.ssl_target_name_override": "localhost", "grpc.enable_retries": 0 };
    this.client = new api.ferment.plugin.v1.Host(address, credentials, options);
  }

  async invoke(context, request, signal) {
    const { payload, blobs } = encode(request);
    const stream = this.client.Invoke({ context, request: payload, blobs });
    const cancel = () => stream.cancel();
    signal.addEventListener("abort", cancel, { once: true });
    const came = [];
    try {
      for await (const event of stream) {
        if (event.event === "blob") came.push(event.blob);
        else if (event.event === "error") rethrow(decode(event.error, came));
        else if (event.event === "result") {
          const answer = decode(event.result, came);
          if (answer.error) rethrow(answer.error);
          return answer.result?.out;
        }
      }
    } finally {
      signal.removeEventListener("abort", cancel);
    }
    throw protocol("host call: the stream ended without a result or an error");
  }

  state(op, key, value, ifVersion) {
    // The host answers in the encoding of the value, so every request has one.
    const request = { op: "STATE_OP_" + op.toUpperCase(), key, value: inline(value) };
    if (ifVersion !== undefined) request.if_version = ifVersion;
    return new Promise((resolve, reject) => {
      this.client.State(request, (error, answer) => {
        if (error) return reject(error);
        try {
          if (answer.error) rethrow(decode(answer.error));
          const held = answer.value ? decode(answer.value) : null;
          resolve({ value: held, version: Number(answer.version), conflict: answer.conflict });
        } catch (e) {
          reject(e);
        }
      });
    });
  }

  close() {
    this.client.close();
  }
}

const noHost = {
  invoke: () => Promise.reject(new Refusal("runtime/not-ready", "host call: the plugin is not connected to a host")),
  state: () => Promise.reject(new Refusal("runtime/not-ready", "state: the plugin is not connected to a host")),
  close() {},
};

class Service {
  constructor(plugin, own, hostCertificate) {
    Object.assign(this, { plugin, config: {}, root: "", host: noHost, health: "STARTING", reason: "not configured" });
    this.settings = plugin.settings ?? {};
    this.credentials = grpc.credentials.createSsl(hostCertificate, Buffer.from(own.key), Buffer.from(own.certificate));
    this.watchers = new Set();
    this.calls = new Set(); // work in progress
    this.running = new Map(); // the same, by capability
    this.brokered = new Map();
    this.over = new Promise((resolve) => { this.end = (code = 0) => resolve(code); });
  }

  // Handlers of unary calls take a request and return a response.
  register(server) {
    const unary = (handle) => (call, done) => {
      Promise.resolve().then(() => handle(call.request)).then((answer) => done(null, answer), (e) => done({ code: grpc.status.INTERNAL, details: String(e) }));
    };
    server.addService(api.ferment.plugin.v1.Lifecycle.service, {
      Describe: unary((r) => this.describe(r)),
      Configure: unary((r) => this.configure(r)),
      Health: (call) => this.watch(call),
      EndRun: unary(async (r) => { await this.plugin.endRun?.(r.run); return {}; }),
      Drain: unary((r) => this.drain(r)),
    });
    server.addService(api.ferment.plugin.v1.Capability.service, { Invoke: (call) => this.invoke(call) });
    server.addService(api.plugin.GRPCBroker.service, { StartStream: (call) => this.broker(call) });
    server.addService(api.plugin.GRPCController.service, {
      Shutdown: unary(() => { setImmediate(() => this.end(0)); return {}; }),
    });
  }

  // Lifecycle

  describe(request) {
    try {
      const answer = { description: inline(describe(this.plugin)) };
      if (request.config) {
        const { findings } = checkSettings(this.settings, decode(request.config), {});
        if (findings.length) answer.findings = inline(findings);
      }
      return answer;
    } catch (e) {
      return { error: inline(failure(e)) };
    }
  }

  async configure(request) {
    const host = this.host;
    try {
      if (this.health !== "STARTING") throw protocol("configure: the plugin is already configured, or is shutting down");
      if (levels.includes(request.log_level)) logLevel = request.log_level;
      const config = request.config ? decode(request.config) : {};
      const secrets = {};
      for (const [where, text] of Object.entries(request.secrets ? decode(request.secrets) : {})) {
        secrets[where.replace(/^\[:?|\]$/g, "")] = text; // a path is written as canonical EDN: [:api-key]
      }
      const { values, findings } = checkSettings(this.settings, config, secrets);
      const answer = { description: inline(describe(this.plugin)) };
      if (findings.length) return { ...answer, findings: inline(findings) };
      if (request.broker_id) this.host = await this.dial(request.broker_id);
      Object.assign(this, { config: values, root: request.root });
      await this.plugin.start?.(values);
      this.report("READY", "");
      return answer;
    } catch (e) {
      if (this.host !== host) {
        this.host.close();
        this.host = host;
      }
      const said = failure(e);
      if (said.type === "runtime/invoke-failed") said.type = "runtime/start-failed";
      return { error: inline(said) };
    }
  }

  report(state, reason) {
    this.health = state;
    this.reason = reason;
    for (const call of this.watchers) call.write(this.state());
  }

  state() {
    return { state: "HEALTH_STATE_" + this.health, reason: this.reason, in_flight: this.calls.size };
  }

  watch(call) {
    call.write(this.state());
    if (call.request.once) return call.end();
    this.watchers.add(call);
    call.on("cancelled", () => this.watchers.delete(call));
  }

  async drain(request) {
    this.report("DRAINING", "draining");
    const running = [...this.calls];
    const left = Math.max(0, Number(request.deadline_unix_nano) / 1e6 - Date.now());
    await within(left, Promise.all(running.map((c) => c.done)));
    const unfinished = running.filter((c) => this.calls.has(c));
    for (const c of unfinished) c.call.stop.abort(drained());
    return { unfinished: unfinished.length };
  }

  // Capability

  async invoke(stream) {
    const out = new Events(stream);
    try {
      out.last("result", await this.answer(stream, out));
    } catch (e) {
      out.last("error", failure(e));
    }
  }

  async answer(stream, out) {
    if (this.health !== "READY") throw new Refusal("runtime/not-ready", `invoke: the plugin is ${this.reason || "not ready"}`);
    const { context, request, blobs } = stream.request;
    const envelope = decode(request, blobs);
    if (!isObject(envelope) || !isObject(envelope.task)) throw protocol("invoke: the request is no envelope: it has no :task");
    const capability = this.find(envelope.task);
    const running = this.running.get(capability.id) ?? 0;
    if (capability.maxInFlight && running >= capability.maxInFlight) {
      throw new Refusal("runtime/overloaded", `invoke ${capability.id}: as many calls are in flight as it takes`);
    }
    const call = new Call(this, context ?? emptyContext, envelope, capability);
    stream.on("cancelled", () => call.stop.abort(new Refusal("canceled", "the caller canceled the call")));
    const timer = call.deadline && setTimeout(
      () => call.stop.abort(new Refusal("timeout/hard", "the deadline passed")),
      Math.min(Math.max(0, call.deadline - Date.now()), 2 ** 31 - 1));
    const work = { call, done: undefined };
    this.calls.add(work);
    this.running.set(capability.id, running + 1);
    work.done = this.work(capability, envelope.input, call, out).finally(() => {
      clearTimeout(timer);
      this.calls.delete(work);
      this.running.set(capability.id, this.running.get(capability.id) - 1);
    });
    work.done.catch(() => {}); // it may end after its response, see below
    const stopped = new Promise((_, reject) => call.signal.addEventListener("abort", () => reject(call.signal.reason), { once: true }));
    const answer = asOut(await Promise.race([work.done, stopped]));
    const usage = { mode: capability.deterministic ? "deterministic" : "live", ...call.usage };
    const said = { result: { type: "value", out: answer, usage } };
    return Object.keys(call.meta).length ? { ...said, "invoke/meta": call.meta } : said;
  }

  find(task) {
    const id = task["cap/id"];
    const found = this.plugin.capabilities.find((c) => c.id === id || (!id && c.intents.includes(task.intent)));
    if (!found) throw new Refusal("cap/not-found", `invoke: this plugin has no capability ${id ?? "for " + task.intent}`);
    return found;
  }

  async work(capability, input, call, out) {
    if (!isGenerator(capability.run)) return capability.run(input, call);
    const pieces = capability.run(input, call);
    let text = "";
    for (;;) {
      const { value, done } = await pieces.next();
      if (done) return value ?? { text };
      if (call.signal.aborted) return pieces.return();
      text += value;
      await out.delta({ kind: "text", text: value }, call.signal);
    }
  }

  // go-plugin

  broker(call) {
    call.on("data", (info) => this.listening(info.service_id).resolve(info));
    call.on("end", () => call.end());
    call.on("error", () => {});
  }

  listening(id) {
    if (!this.brokered.has(id)) {
      const slot = {};
      slot.promise = new Promise((resolve) => { slot.resolve = resolve; });
      this.brokered.set(id, slot);
    }
    return this.brokered.get(id);
  }

  async dial(id) {
    const info = await within(5000, this.listening(id).promise);
    if (!info) throw new Refusal("runtime/start-failed", `configure: the host said nothing about its broker id ${id}`);
    return new Host((info.network === "unix" ? "unix:" : "") + info.address, this.credentials);
  }

  async close() {
    this.report("DRAINING", "ending");
    const running = [...this.calls];
    for (const c of running) c.call.stop.abort(drained());
    await within(CLOSE_GRACE, Promise.allSettled(running.map((c) => c.done)));
    await within(CLOSE_GRACE, Promise.resolve(this.plugin.close?.()).catch((e) => log("error", "close", { error: String(e) })));
    this.host.close();
  }
}

const emptyContext = {
  run: "", node: "", attempt: 0, effects: [], effect_key: "", stack: [], deadline_unix_nano: "0",
  budget: Buffer.alloc(0), scope: Buffer.alloc(0), path: Buffer.alloc(0),
};
const drained = () => new Refusal("runtime/not-ready", "the call did not end before the deadline of the drain");

/** Returns the value of promise, or undefined after the time limit. */
function within(ms, promise) {
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function asOut(value) {
  if (value === undefined || value === null) return {};
  if (isObject(value)) return value;
  return typeof value === "string" ? { text: value } : { value };
}

/** The events of one call, numbered from 1; nothing follows the last. */
class Events {
  constructor(stream) {
    Object.assign(this, { stream, seq: 0, deltas: 0, ended: false });
  }

  async delta(piece, signal) {
    if (this.ended) return;
    if (this.send("delta", { ...piece, seq: ++this.deltas })) return;
    await new Promise((resolve) => { // the host is not reading
      this.stream.once("drain", resolve);
      signal.addEventListener("abort", resolve, { once: true });
    });
  }

  last(kind, value) {
    if (this.ended) return;
    try {
      this.send(kind, value);
    } catch (e) { // not JSON, or too large
      this.send("error", failure(e));
    }
    this.ended = true;
    this.stream.end();
  }

  send(kind, value) {
    const { payload, blobs } = encode(value);
    for (const blob of blobs) this.stream.write({ blob, seq: ++this.seq });
    return this.stream.write({ [kind]: payload, seq: ++this.seq });
  }
}

// --- the process ------------------------------------------------------------------

/** Runs plugin as a plugin process:
 *
 *   { name, version, capabilities, settings, needs, features, start, close, endRun }
 *
 * A capability is { id, intents, run } and optionally kind, takes, gives,
 * effects, tags, deterministic, maxInFlight, description, metadata. takes and
 * gives are schemas: the name of one ("req/text"), or EDN text ("[:map [:text
 * :string]]") that is published. A setting is { type, default, doc, secret }
 * with the type string, integer, number or boolean. features are host-calls and
 * hot-swap, if the plugin supports them. */
export async function serve(plugin) {
  check(plugin);
  if (process.env[COOKIE_KEY] !== COOKIE_VALUE) {
    process.stderr.write(`${plugin.name} ${plugin.version} is a Ferment plugin: name it in the command of a plugin block in ferment.hcl, a ferment host starts it.\n`);
    process.exit(2);
  }
  const announced = (process.env.PLUGIN_PROTOCOL_VERSIONS ?? "").match(/\d+/g)?.map(Number) ?? [];
  if (announced.length && !announced.includes(PROTOCOL)) {
    const older = Math.max(...announced) > PROTOCOL ? "the plugin" : "the host";
    process.stderr.write(`${plugin.name} ${plugin.version}: :runtime/protocol: the plugin speaks protocol ${PROTOCOL}, the host ${announced.join(", ")}: upgrade ${older}\n`);
    process.exit(2);
  }
  process.on("unhandledRejection", (e) => log("error", "a promise failed and nobody was waiting", { error: String(e?.stack ?? e) }));
  const hostCertificate = process.env.PLUGIN_CLIENT_CERT;
  if (!hostCertificate) {
    log("error", `${plugin.name} cannot be served: the host sent no certificate, mutual TLS is required`);
    process.exit(1);
  }
  const own = newCertificate();
  const service = new Service(plugin, own, Buffer.from(hostCertificate));
  const server = new grpc.Server(limits);
  service.register(server);
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR || os.tmpdir(), `js${process.pid}.sock`);
  const pair = { private_key: Buffer.from(own.key), cert_chain: Buffer.from(own.certificate) };
  const credentials = grpc.ServerCredentials.createSsl(Buffer.from(hostCertificate), [pair], true);
  fs.rmSync(socket, { force: true }); // left by a killed process with this id
  await new Promise((resolve, reject) => {
    server.bindAsync("unix:" + socket, credentials, (e) => (e ? reject(e) : resolve()));
  });
  for (const name of Object.keys(process.env)) { // for the handshake only, not for child processes
    if (name === COOKIE_KEY || name.startsWith("PLUGIN_")) delete process.env[name];
  }
  process.on("SIGINT", () => {}); // a terminal sends it to all processes; the host stops plugins
  process.on("SIGTERM", () => service.end(128 + 15));
  const stdin = fs.fstatSync(0);
  if (stdin.isFIFO() || stdin.isSocket()) { // its end means that the host is gone
    process.stdin.on("end", () => service.end(0)).on("error", () => service.end(0)).resume();
  }
  process.stdout.write(`1|${PROTOCOL}|unix|${socket}|grpc|${own.raw.toString("base64").replace(/=+$/, "")}\n`);
  const code = await service.over;
  await service.close();
  server.forceShutdown();
  fs.rmSync(socket, { force: true });
  process.exit(code);
}
