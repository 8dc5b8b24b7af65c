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
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire/pluginv1"
)

// python runs a script beside the templates.
func python(t *testing.T, script, stdin string) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", "-B", "-c", script)
	cmd.Dir = "templates/python"
	cmd.Stdin = strings.NewReader(stdin)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, "%s", problems.String())
	return strings.TrimSpace(string(out))
}

// The generated messages in Python are those of plugin.proto: "make proto".
func TestMessagesInOtherLanguages(t *testing.T) {
	raw, err := hex.DecodeString(python(t, "import plugin_pb2; print(plugin_pb2.DESCRIPTOR.serialized_pb.hex())", ""))
	require.NoError(t, err)
	var theirs descriptorpb.FileDescriptorProto
	require.NoError(t, proto.Unmarshal(raw, &theirs))
	ours := protodesc.ToFileDescriptorProto(pluginv1.File_plugin_proto)
	for _, m := range ours.GetMessageType() {
		for _, f := range m.GetField() {
			f.JsonName = nil // protoc leaves it out for Python
		}
	}
	assert.Equal(t, prototext.Format(ours), prototext.Format(&theirs), "make proto")
}

// WIRE-003: the names of blobs are the same in every language, for texts whose
// canonical spelling is not the text itself and for every shape of the tree.
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
	got := python(t, "import json, sys, wire\nfor s in json.load(sys.stdin): print(wire.blob_hash(s))", string(asJSON))
	assert.Equal(t, want, strings.Fields(got))

	node := exec.Command("node", "--input-type=module", "-e",
		`import { blobHash } from "./wire.mjs"; import fs from "node:fs"; for (const s of JSON.parse(fs.readFileSync(0))) console.log(blobHash(s));`)
	node.Dir = "../../../../../examples/plugins/outline"
	node.Stdin = strings.NewReader(string(asJSON))
	out, err := node.Output()
	require.NoError(t, err)
	assert.Equal(t, want, strings.Fields(string(out)))
}
