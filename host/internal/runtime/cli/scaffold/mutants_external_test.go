//go:build external

package scaffold

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// mutant is a project with one edit: a fault that authors of plugins in other
// languages make easily.
type mutant struct {
	kind     string
	file     string // name without the folder
	old, new string
	check    string // check that must fail
}

var pythonMutants = map[string]mutant{
	"hash not compared":            {"tool", "wire.py", `if blob_hash(text) != name:`, `if False:`, "core/malformed/blob-wrong"},
	"hash compared of short texts": {"tool", "wire.py", `if blob_hash(text) != name:`, `if len(text) < 65536 and blob_hash(text) != name:`, "core/malformed/blob-large"},
	"missing blob is empty":        {"tool", "wire.py", `raise _protocol(f"decode payload: no blob was received for the reference {str(name)[:80]}")`, `return ""`, "core/malformed/blob-missing"},
	"references stay":              {"tool", "wire.py", `return _blob(value, bodies, texts)`, `return value`, "core/malformed/blob-missing"},
	"blobs are empty":              {"tool", "wire.py", `return texts[name]`, `return ""`, "core/invoke/blob"},
	"first of two forms":           {"tool", "wire.py", `json.loads(payload.body.decode(), object_pairs_hook=_once, parse_constant=_no_constant)`, `json.JSONDecoder().raw_decode(payload.body.decode())[0]`, "core/malformed/two-forms"},
	"unreadable text":              {"tool", "wire.py", `raise _protocol(f"decode payload: {e}") from None`, `raise Refusal("input/invalid", "no JSON")`, "core/malformed/text"},
	"deep value":                   {"tool", "wire.py", `except (ValueError, RecursionError) as e`, `except ValueError as e`, "core/malformed/deep"},
	"no envelope":                  {"tool", "wire.py", `raise _protocol("invoke: the request is no envelope: it has no :task")`, `raise Refusal("input/invalid", "no task")`, "core/malformed/not-a-map"},
	"any encoding":                 {"tool", "wire.py", `if payload.encoding != "json":`, `if False:`, "core/malformed/encoding"},
	"no payload":                   {"tool", "wire.py", `raise _protocol("decode payload: the payload is missing")`, `raise Refusal("input/invalid", "nothing")`, "core/malformed/absent"},
	"other type for unknown":       {"tool", "wire.py", `Refusal("cap/not-found", f"invoke`, `Refusal("input/invalid", f"invoke`, "core/invoke/unknown-capability"},
	"answers unconfigured":         {"tool", "wire.py", `if self._state not in (pb.HEALTH_STATE_READY, pb.HEALTH_STATE_DEGRADED):`, `if False:`, "core/configure/before-invoke"},
	"answers after drain":          {"tool", "wire.py", `if self._state not in (pb.HEALTH_STATE_READY, pb.HEALTH_STATE_DEGRADED):`, `if self._state == pb.HEALTH_STATE_STARTING:`, "core/drain/refuses"},
	"errors in EDN": {"tool", "wire.py", `        payload, blobs = encode(value)
        for blob in blobs:`, `        payload, blobs = encode(value)
        if kind == "error":
            payload = pb.Payload(encoding="edn", body=b"{:type :" + value["type"].encode() + b"}")
        for blob in blobs:`, "core/invoke/error-encoding"},
	"run ends once": {"tool", "wire.py", `await _run(self.plugin.end_run, request.run)`, `if request.run in vars(self).setdefault("ended", set()): raise KeyError(request.run)
        self.ended.add(request.run)`, "core/run/again"},
	"exit code": {"tool", "wire.py", `return service.exit_code`, `return 3`, "core/shutdown/exit-code"},
	"calls share an envelope": {"solver", "wire.py", `capability = self._find(envelope["task"])`, `self.last = envelope
        await asyncio.sleep(0.002)
        envelope = self.last
        capability = self._find(envelope["task"])`, "core/invoke/apart"},
	"place lost by cancelling": {"solver", "wire.py", `        finally:
            call.stopped.set()
            capability.running -= 1`, `        except asyncio.CancelledError:
            capability.running += 1
            raise
        finally:
            call.stopped.set()
            capability.running -= 1`, "core/cancel/slots"},
	"9 KiB left by each call": {"tool", "wire.py", `call = Call(self, request.context, envelope, capability)`, `call = Call(self, request.context, envelope, capability)
        globals().setdefault("LEAK", []).append(bytearray(9 << 10))`, "core/load/growth"},
	"unknown keys refused": {"tool", "wire.py", `capability = self._find(envelope["task"])`, `if set(envelope) - {"proto", "trace", "task", "input", "effects"}:
            raise Refusal("input/invalid", "an unknown key")
        capability = self._find(envelope["task"])`, "core/invoke/unknown-keys"},
	"empty text": {"tool", "plugin.py", `return {"words": len(words), "distinct": len(set(words))}`, `return {"words": len(words), "distinct": len(set(words))} if words else {"words": "none"}`, "core/invoke/edges"},
}

var nodeMutants = map[string]mutant{
	"hash not compared": {"tool", "index.mjs", `if (blobHash(text) !== name) throw`, `if (false) throw`,
		"core/malformed/blob-wrong"},
	"missing blob is empty": {"tool", "index.mjs", `if (!bodies.has(name)) throw protocol(`,
		`if (!bodies.has(name)) return String(`, "core/malformed/blob-missing"},
	"deep value":   {"tool", "index.mjs", `if (tooDeep(value)) throw`, `if (false) throw`, "core/malformed/deep"},
	"any encoding": {"tool", "index.mjs", `if (payload.encoding !== "json") {`, `if (false) {`, "core/malformed/encoding"},
}

// linkPackages links the packages of the example for Node, which has the same
// lock file, into a project.
func linkPackages(t *testing.T, dir string) {
	t.Helper()
	packages, err := filepath.Abs("../../../../../examples/plugins/outline/node_modules")
	require.NoError(t, err)
	require.DirExists(t, packages, "run npm ci in examples/plugins/outline")
	require.NoError(t, os.Symlink(packages, filepath.Join(dir, "node_modules")))
}

// plugin writes a project, with an optional edit, and returns its command and
// the options of a run.
func plugin(t *testing.T, lang, kind string, edit mutant) (conformance.Target, conformance.Options) {
	t.Helper()
	p := Project{Name: "my-plugin", Kind: kind, Lang: lang, SDKVersion: "v0.0.0"}
	p.Interpreter = map[string]string{Python: "/usr/bin/python3", Node: "/usr/bin/node"}[lang]
	files, err := p.Files()
	require.NoError(t, err)
	var o conformance.Options
	for i, f := range files {
		if path.Base(f.Path) == edit.file {
			require.Equal(t, 1, strings.Count(string(f.Text), edit.old), "the edit of %s", f.Path)
			files[i].Text = []byte(strings.Replace(string(f.Text), edit.old, edit.new, 1))
		}
		if f.Path == "samples.edn" {
			require.NoError(t, o.ReadSamples(edn.MustRead(string(f.Text))))
		}
	}
	dir := filepath.Join(t.TempDir(), "p")
	require.NoError(t, Write(dir, files))
	program := map[string]string{Python: "plugin.py", Node: "plugin.mjs"}[lang]
	if lang == Node {
		linkPackages(t, dir)
	}
	o.Seed, o.Patience = 1, 10
	return conformance.Process([]string{p.Interpreter, filepath.Join(dir, program)}, nil), o
}

// CONF-005: an unedited plugin passes a check, and one with the edit that the
// check is named for fails it. The tests of generated projects show that they
// pass every check.
func TestMutantsInOtherLanguages(t *testing.T) {
	checks := map[string]conformance.Check{}
	for _, c := range conformance.Checks() {
		checks[c.ID] = c
	}
	for lang, mutants := range map[string]map[string]mutant{Python: pythonMutants, Node: nodeMutants} {
		for name, m := range mutants {
			t.Run(lang+" "+name, func(t *testing.T) {
				t.Parallel()
				target, o := plugin(t, lang, m.kind, mutant{})
				r := conformance.RunCheck(t.Context(), target, checks[m.check], o)
				require.Equal(t, conformance.Pass, r.Status, "%s as it comes: expected %s, observed %s, log %v", m.check, r.Expected, r.Observed, r.Evidence)
				target, o = plugin(t, lang, m.kind, m)
				o.Patience = 2 // a call that hangs uses it up
				if r = conformance.RunCheck(t.Context(), target, checks[m.check], o); r.Status == conformance.Pass {
					o.Patience = 10 // it was too slow to reveal a leak
					r = conformance.RunCheck(t.Context(), target, checks[m.check], o)
				}
				assert.Equal(t, conformance.Fail, r.Status, "%s passes", m.check)
				assert.NotContains(t, r.Observed, "not testable")
				assert.NotContains(t, r.Expected, "handshake", "it does not start: %s %v", r.Observed, r.Evidence)
			})
		}
	}
}

// oddEnds are statements at the begin of the function of a tool, after which a call
// does not end by itself, and the type of the error with which it must end; "" for
// an answer.
var oddEnds = map[string]map[string]string{
	Python: {
		`raise asyncio.CancelledError()`:  "runtime/invoke-failed", // of a task of its own
		`sys.exit(3)`:                     "runtime/invoke-failed",
		`raise RuntimeError("caf\udce9")`: "runtime/invoke-failed", // as in the name of a file
		`raise type("E", (Exception,), {"__str__": lambda e: 1 / 0})()`:  "runtime/invoke-failed",
		`input["me"] = input; return input`:                              "runtime/invoke-failed",
		`raise wire.Refusal("my/full", "no", at=datetime.date.today())`:  "my/full",
		`raise wire.Refusal("my/full", "caf\udce9", n=float("nan"))`:     "my/full",
		`raise wire.Refusal("my/full", "no", text="x" * (9 << 20))`:      "my/full",
		`call.log("warning", "a"); call.log("info", "b", x=[input] * 2)`: "",
		`input["me"] = input; call.log("info", "c", x=input)`:            "",
	},
	Node: {
		`throw Object.create(null);`: "runtime/invoke-failed",
		`throw null;`:                "runtime/invoke-failed",
		`throw new Error("x".repeat(492) + "🐝🐝");`:                 "runtime/invoke-failed", // cut in a pair
		`input.me = input; return input;`:                          "runtime/invoke-failed",
		`throw new Refusal("my/full", "no", null);`:                "my/full",
		`throw new Refusal("my/full", "no", { n: 1n });`:           "my/full",
		`throw new Refusal("my/full", "x".repeat(499) + "🐝", {});`: "my/full",
		`log("warning", "a"); log("info", "b", { n: 1n });`:        "",
	},
}

// CALL-001, SDK-002: however the function of a plugin ends, the call ends with an
// answer or an error of its type, and the plugin continues to run.
func TestEveryCallEndsInOtherLanguages(t *testing.T) {
	for lang, edit := range map[string]mutant{
		Python: {file: "plugin.py", old: "def count(input, call):\n", new: "def count(input, call):\n    import asyncio, datetime, sys; from ferment import wire; "},
		Node: {file: "plugin.mjs", old: "import { need, serve } from \"./ferment/index.mjs\";\n\nasync function count(input) {\n",
			new: "import { log, need, Refusal, serve } from \"./ferment/index.mjs\";\n\nasync function count(input) {\n  "},
	} {
		for statement, want := range oddEnds[lang] {
			t.Run(lang+" "+statement, func(t *testing.T) {
				t.Parallel()
				edit := edit
				edit.new += statement + "\n"
				target, _ := plugin(t, lang, "tool", edit)
				in, err := target.Start(t.Context())
				require.NoError(t, err)
				defer in.Stop()
				in.Client().UseEncoding(wire.JSON)
				_, err = in.Client().Configure(t.Context(), wire.Setup{Config: edn.MustMap()}, nil)
				require.NoError(t, err)
				for range 2 {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					_, err = in.Client().Invoke(ctx, wire.CallContext{CallID: "c-1"},
						edn.MustRead(`{:proto 1 :task {:intent :my-plugin/count :cap/id :my-plugin/tool} :input {:text "to be"}}`), nil)
					cancel()
					if want == "" {
						require.NoError(t, err)
						continue
					}
					require.Error(t, err)
					assert.False(t, wire.Transport(err), "%v", err)
					assert.Equal(t, want, contract.AsError(err).Type, "%v", err)
				}
			})
		}
	}
}
