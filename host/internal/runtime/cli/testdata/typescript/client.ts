// Uses the generated types against a daemon: client.js URL TOKEN.
import { strict as assert } from "node:assert";
import createClient from "openapi-fetch";
import type { components, paths } from "./node_modules/.generated/schema.js";

const [baseUrl, token] = process.argv.slice(2);
assert(baseUrl && token);
const daemon = createClient<paths, "application/json">({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

type Request = components["schemas"]["envelope.request"];
const request: Request = { proto: 1, trace: { id: "typescript" }, task: { intent: "mine/data" }, input: {} };

const answered = await daemon.POST("/v1/act", { body: request, headers: { "Idempotency-Key": "typescript-1" } });
assert(answered.data && !("job/id" in answered.data), JSON.stringify(answered.error));
const run = answered.data["run/id"];
assert(run);
assert.equal(answered.response.headers.get("Ferment-Run-Id"), run);
const again = await daemon.POST("/v1/act", { body: request, headers: { "Idempotency-Key": "typescript-1" } });
assert.equal(again.response.headers.get("Idempotency-Replayed"), "true");

const refused = await daemon.POST("/v1/act", { body: { ...request, task: { intent: "no/such" } } });
assert.equal(refused.response.status, 400);
assert.equal(refused.error?.error?.type, "invalid-request");

const accepted = await daemon.POST("/v1/act", { body: { ...request, "response/type": "accepted" } });
assert.equal(accepted.response.status, 202);
assert(accepted.data && "job/id" in accepted.data);
const id = accepted.data["job/id"];
assert.equal(accepted.response.headers.get("Location"), `/v1/act/jobs/${id}`);
for (let status = ""; status !== "completed"; ) {
  const job = await daemon.GET("/v1/act/jobs/{id}", { params: { path: { id } } });
  assert(job.data);
  status = job.data["job/status"];
}

const runs = await daemon.GET("/v1/runs", { params: { query: { status: "completed", limit: 1 } } });
assert(runs.data);
assert.equal(runs.data.runs[0]?.run, id);
assert(runs.data["more?"] && runs.data.next);
const records = await daemon.GET("/v1/runs/{id}/records", { params: { path: { id: run }, query: { values: "true" } } });
assert(records.data && records.data.records.length > 3);
const diff = await daemon.GET("/v1/runs/{id}/diff/{other}", { params: { path: { id: run, other: id } } });
assert.equal(typeof diff.data?.["equal?"], "boolean");

const session = await daemon.POST("/v1/session", { body: { action: "open", "session/id": "ts" } });
assert.equal(session.data?.["ok?"], true);
const denied = await daemon.POST("/v1/admin", { body: { action: "plugin-list" } });
assert.equal(denied.error?.type, "auth/forbidden");
const missing = await daemon.GET("/v1/runs/{id}", { params: { path: { id: "run_01AAAAAAAAAAAAAAAAAAAAAAAA" } } });
assert.equal(missing.error?.error?.type, "run/not-found");

// What the document does not have is refused by the compiler.
// @ts-expect-error: there is no such path
void (() => daemon.GET("/v1/nope"));
// @ts-expect-error: the path needs its parameter
void (() => daemon.GET("/v1/runs/{id}"));
// @ts-expect-error: there is no such status
void (() => daemon.GET("/v1/runs", { params: { query: { status: "done" } } }));
// @ts-expect-error: the envelope needs a trace
const incomplete: Request = { proto: 1, task: { intent: "mine/data" }, input: {} };
// @ts-expect-error: the envelope has no such key
const surplus: Request = { ...request, surprise: true };
void [incomplete, surplus];

console.log("OK");
