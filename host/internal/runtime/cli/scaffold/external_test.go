//go:build external

package scaffold

import (
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fermenthq/ferment/sdk/edn"
)

// python runs a script beside the templates.
func python(t *testing.T, script, stdin string) string {
	t.Helper()
	return output(t, "templates/python", stdin, "/usr/bin/python3", "-B", "-c", script)
}

// node runs a module of a new project, with the packages of the example.
func node(t *testing.T, script, stdin string) string {
	t.Helper()
	script = `import { blobHash, encode, failure, serve } from "./ferment/index.mjs";` + script
	dir := written(t, Node)
	linkPackages(t, dir)
	return output(t, dir, stdin, "node", "--input-type=module", "-e", script)
}

// output returns the output of a program in a directory.
func output(t *testing.T, dir, stdin, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, "%s", problems.String())
	return strings.TrimSpace(string(out))
}

// The generated messages in Python match plugin.proto: "make proto".
func TestMessagesInOtherLanguages(t *testing.T) {
	raw, err := hex.DecodeString(python(t, `
from ferment import plugin_pb2
print(plugin_pb2.DESCRIPTOR.serialized_pb.hex())`, ""))
	require.NoError(t, err)
	var theirs descriptorpb.FileDescriptorProto
	require.NoError(t, proto.Unmarshal(raw, &theirs))
	file, err := protoregistry.GlobalFiles.FindFileByPath("plugin.proto")
	require.NoError(t, err)
	ours := protodesc.ToFileDescriptorProto(file)
	for _, m := range ours.GetMessageType() {
		for _, f := range m.GetField() {
			f.JsonName = nil // protoc omits it for Python
		}
	}
	assert.Equal(t, prototext.Format(ours), prototext.Format(&theirs), "make proto")
}

// WIRE-003: the names of blobs are the same in every language, for texts whose
// canonical form is not the text itself and for every shape of the hash tree.
func TestBlobNamesInOtherLanguages(t *testing.T) {
	texts := []string{"", "a", "quote \" back \\ tab \t line \n return \r", "\x00\x01\x1f\x7f\b\f", "zażółć gęślą jaźń 🐝"}
	for _, n := range []int{62, 63, 64, 1021, 1022, 1023, 2046, 2047, 3070, 4094, 7 * 1024, 33*1024 + 5, 300_000} {
		texts = append(texts, strings.Repeat("0123456789abcdef\n", n/17+1)[:n])
	}
	values := make([]edn.Value, len(texts))
	want := make([]string, len(texts))
	for i, s := range texts {
		values[i], want[i] = edn.Text(s), edn.Hash(edn.Text(s))
	}
	asJSON, err := edn.WriteJSON(edn.Vector(values...))
	require.NoError(t, err)
	got := python(t, `
import json, sys
from ferment import wire
for s in json.load(sys.stdin): print(wire.blob_hash(s))`, string(asJSON))
	assert.Equal(t, want, strings.Fields(got))

	got = node(t, `
import fs from "node:fs";
for (const s of JSON.parse(fs.readFileSync(0))) console.log(blobHash(s));`, string(asJSON))
	assert.Equal(t, want, strings.Fields(got))
}

// DESCRIBE-005: two capabilities of one intent publish their own schemas; a
// shared name would check answers against the wrong one.
func TestSchemaNamesInOtherLanguages(t *testing.T) {
	assert.JSONEq(t, `["res/d.count", "res/d.b", {"res/d.count": "[:map [:n :int]]", "res/d.b": "[:map [:n :string]]"}]`, python(t, `
import json
from ferment import Capability, Plugin
def f(input, call): pass
d = Plugin("d", "1", [Capability("d/a", f, ["d/count"], gives="[:map [:n :int]]"),
                      Capability("d/b", f, "d/count", gives="[:map [:n :string]]")]).describe()
print(json.dumps([c["io/out-schema"] for c in d["capabilities"]] + [d["schemas"]]))`, ""))
}

// SDK-002: the stack of an exception starts with the author's own line, even
// if a library threw it.
func TestStacksInOtherLanguages(t *testing.T) {
	assert.Contains(t, python(t, `
import json
from ferment import wire
def mine(): json.loads("{")
try: mine()
except ValueError as e: print(wire._failure(e)["details"]["stack"][0])`, ""), "mine (")
	assert.Contains(t, node(t, `
function mine() { JSON.parse("{"); }
try { mine(); } catch (e) { console.log(failure(e).details.stack[0]); }`, ""), "mine (")
}

// SDK-005: values that the messages of the contract cannot express are
// rejected at the start of the program, or converted, and never lost.
func TestMistakesInOtherLanguages(t *testing.T) {
	assert.Equal(t, "TypeError: capability d/a: a function is def, async def, or async def with yield\n[1,2]", python(t, `
from ferment import wire
def f(input, call): yield "a"
try: wire.Capability("d/a", f, ["d/count"])
except TypeError as e: print("TypeError:", str(e).split(";")[0])
print(wire.encode({2, 1})[0].body.decode())`, ""))
	assert.Contains(t, python(t, `
from ferment import wire
print(wire._failure(PermissionError(1, "not permitted"))["hint"])`, ""), "declares as its needs")
	assert.JSONEq(t, `{"at":"2026-11-20T10:00:00.000Z","of":{"a":[1]},"set":[1,2]}`, node(t, `
const value = { at: new Date(Date.UTC(2026, 10, 20, 10)), set: new Set([1, 2]), of: new Map([["a", [1]]]) };
console.log(encode(value).payload.body.toString());`, ""))
	for run, says := range map[string]string{
		"{ id: 'd/a', intents: ['d/b'], run: function* () {} }":      "capability d/a: run must be a function, an async one, or an async generator",
		"{ id: 'd/a', intents: 'd/b', run: async () => {} }":         "capability d/a: intents must be a list of names",
		"{ id: 'd/a', intents: ['d/b'], run: undefined, kind: 'x' }": "capability d/a: run must be a function",
	} {
		assert.Contains(t, node(t, `
const plugin = { name: "d", version: "1", capabilities: [`+run+`] };
try { await serve(plugin) } catch (e) { console.log(e.message) }`, ""), says)
	}
}
