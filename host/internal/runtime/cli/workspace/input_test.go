package workspace

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-174: a text that is larger than what is read of it is refused and not cut, from
// standard input and from a file.
func TestLargeText(t *testing.T) {
	for name, shown := range map[string]string{"-": "standard input", "a.txt": "a.txt"} {
		for n, ok := range map[int]bool{maxText: true, maxText + 1: false} {
			in := &invocation{Shell: &Shell{ReadFile: func(_ string, limit int) ([]byte, error) {
				return bytes.Repeat([]byte("x"), min(n, limit+1)), nil
			}}, at: place{dir: "/", root: "/"}}
			input, err := nodeAndFile(in, edn.MustMap(), []string{"a", name})
			if ok {
				require.NoError(t, err)
				assert.Len(t, plain(input.Key("content")), n)
				continue
			}
			assert.ErrorContains(t, err, shown+" has more than 16.0 MiB")
		}
	}
}

// WS-220: a text that does not fit into a request is too large, not a malformed request.
func TestTextBeyondTheRequest(t *testing.T) {
	_, refused := edn.Read([]byte(`"`+strings.Repeat("x", edn.Body.String+1)+`"`), edn.WithLimits(edn.Body))
	for _, e := range []*contract.Error{
		contract.SyntaxError("invalid-request", refused), contract.Errorf("http/too-large", "the body is longer"),
	} {
		d := newDesk(t)
		long := bytes.Repeat([]byte("x"), edn.Body.String+1)
		require.NoError(t, os.WriteFile(filepath.Join(d.root, "long.txt"), long, 0o644))
		got := d.run(fails(e), "text", "context", "put-frame", "a", "long.txt")
		assert.Contains(t, got.stderr, ":frame/too-large")
		assert.Contains(t, got.stderr, "next: put a shorter text")
		got = d.run(fails(e), "text", "context", "put-frame", "a", "note.txt")
		assert.Contains(t, got.stderr, ":"+e.Type)
	}
}

// WS-185: a NODE that is read as an id can be a file, which the next step names.
func TestFileThatLooksLikeAnID(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.WriteFile(filepath.Join(d.root, "deadbeef"), nil, 0o644))
	missing := fails(contract.Errorf("node/not-found", "no node has the id"))
	got := d.run(missing, "text", "context", "get-node", "deadbeef")
	assert.Contains(t, got.stderr, "next: write ./deadbeef for the file")
	assert.NotContains(t, d.run(missing, "text", "context", "get-node", "deadbeee").stderr, "./")
}

// WS-174: an export that is larger than a request goes out in parts, wherever its file
// lies and however large it is; the call names it by its hash.
func TestLargeExportIsSentInParts(t *testing.T) {
	d := newDesk(t)
	content := append([]byte(exportMark), bytes.Repeat([]byte("ferment\n"), (65<<20)/8)...)
	elsewhere := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "all.frm"), content, 0o600))
	from, err := filepath.Rel(d.dir, filepath.Join(elsewhere, "all.frm"))
	require.NoError(t, err)
	for _, args := range [][]string{{"workspace", "import", from, "--yes"}, {"context", "diff", "./" + from}} {
		e := answers("{}")
		require.NoError(t, d.run(e, "edn", args...).err)
		last := len(e.requests) - 1
		require.Equal(t, (len(content)+maxSent-1)/maxSent, last, args)
		var got []byte
		for _, r := range e.requests[:last] {
			in := r.Key("input")
			assert.Equal(t, ":workspace/import", r.Key("task").Key("intent").String())
			assert.Contains(t, r.Key("effects").String(), ":db/write")
			assert.Equal(t, fmt.Sprint(len(got)), in.Key("offset").String())
			part, _ := in.Key("content/b64").AsString()
			assert.LessOrEqual(t, len(part), edn.Body.String)
			b, err := base64.StdEncoding.DecodeString(part)
			require.NoError(t, err)
			got = append(got, b...)
		}
		assert.True(t, bytes.Equal(content, got))
		blob := e.requests[0].Key("input").Key("blob").String()
		assert.Contains(t, e.requests[last].Key("input").String(), ":blob "+blob)
		assert.NotContains(t, e.requests[last].Key("input").String(), "content/b64")
	}
}

// WS-174: nothing is sent of a large file that is not an export.
func TestLargeFileThatIsNoExport(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "all.frm"), make([]byte, maxSent+1), 0o600))
	for _, args := range [][]string{{"workspace", "import", "all.frm", "--yes"}, {"context", "diff", "./all.frm"}} {
		e := answers("{}")
		require.ErrorIs(t, d.run(e, "edn", args...).err, contract.OfType("import/invalid"))
		assert.Empty(t, e.requests)
	}
}

// WS-174, WS-191: who may only read compares the file of an export where it lies, if its
// parts are refused. An import needs the right, and another error stays one.
func TestComparedExportNeedsNoRightToWrite(t *testing.T) {
	d := newDesk(t)
	file := filepath.Join(d.dir, "all.frm")
	require.NoError(t, os.WriteFile(file, append([]byte(exportMark), bytes.Repeat([]byte("x"), maxSent)...), 0o600))
	refusing := func(typ string) *engine {
		return &engine{answer: func(intent string, _ edn.Value) (edn.Value, *contract.Error) {
			if intent == "workspace/import" {
				return edn.Nil(), contract.Errorf(typ, "no")
			}
			return edn.MustMap(), nil
		}}
	}
	for _, typ := range []string{"auth/forbidden", "auth/forbidden-effect", "agent/role-denied"} {
		e := refusing(typ)
		require.NoError(t, d.run(e, "edn", "context", "diff", "./all.frm", "./all.frm").err, typ)
		asked := e.requests[len(e.requests)-1]
		assert.Equal(t, ":context/diff", asked.Key("task").Key("intent").String())
		for _, key := range []string{"from", "to"} {
			named, _ := asked.Key("input").Key(key).Key("file").AsString()
			assert.Equal(t, file, named)
		}
		assert.Error(t, d.run(refusing(typ), "edn", "workspace", "import", "all.frm", "--yes").err)
	}
	for _, typ := range []string{"auth/busy", "limit/exceeded"} {
		e := refusing(typ)
		assert.Error(t, d.run(e, "edn", "context", "diff", "./all.frm").err)
		assert.Len(t, e.requests, 1, "it does not go on")
	}
}

// WS-164: an event of a watch says what failed, and what was made.
func TestWatchEventWithError(t *testing.T) {
	p := &page{}
	watchText(p, edn.MustRead(`{:event :regenerated :commit 7 :error {:type :scan/unreadable :message "p cannot be read"}}`))
	watchText(p, edn.MustRead(`{:event :regenerated :commit 8 :report {:items [{:path "a" :frame/type "digest" :reason :node-changed}]}}`))
	assert.Contains(t, p.String(), "failed: p cannot be read (:scan/unreadable)")
	assert.Contains(t, p.String(), "node-changed")
}

// WS-182: a label that is longer than its column does not run into its text.
func TestLongLabel(t *testing.T) {
	p := &page{}
	p.field("  conditions", "condition inexact")
	assert.Equal(t, "  conditions condition inexact\n", p.String())
}

// WS-181: shells complete a NODE, and flags with paths, with what is in the directory.
func TestCompletionOfNodes(t *testing.T) {
	d := newDesk(t)
	for _, path := range []string{"src/a.go", "src/lib/b.go", "snap.txt", ".git/x"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(d.root, path)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(d.root, path), nil, 0o644))
	}
	offered := func(args ...string) string {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(d.run(answers("{}"), "text", append([]string{"__complete"}, args...)...).stdout), "\n")
		return strings.Join(lines[:len(lines)-1], " ")
	}
	assert.Equal(t, "note.txt snap.txt src/", offered("context", "get-node", ""))
	assert.Equal(t, "snap.txt src/", offered("context", "get-head", "s"))
	assert.Equal(t, "src/a.go src/lib/", offered("workspace", "delete", "src/"))
	assert.Empty(t, offered("context", "get-node", "src/", "s"))
	assert.Equal(t, "current", offered("context", "compose", "--source", "cu"))
	assert.Equal(t, "siblings snap.txt src/", offered("context", "compose", "--source", "s"))
	assert.Equal(t, "src/", offered("workspace", "scan", "--path", "sr"))
	d.dir = filepath.Join(d.root, "src")
	assert.Equal(t, "a.go lib/", offered("context", "get-node", ""))
	d.dir = t.TempDir()
	assert.Equal(t, "src/", offered("context", "get-node", "--workspace", d.root, "sr"))
}

// WS-002: a path that is not UTF-8 is explained by its bytes, and refused where only text
// can be sent.
func TestPathsThatAreNotText(t *testing.T) {
	d := newDesk(t)
	e := answers(`{:ignored? true}`)
	require.NoError(t, d.run(e, "edn", "workspace", "ignore", "explain", "d/b\xffad2/").err)
	input := e.requests[0].Key("input")
	raw, _ := input.Key("path/b64").AsString()
	b, err := base64.RawURLEncoding.DecodeString(raw)
	require.NoError(t, err)
	assert.Equal(t, "d/b\xffad2", string(b))
	assert.True(t, input.Key("directory?").Truthy())
	for _, args := range [][]string{
		{"workspace", "scan", "--path", "b\xff"},
		{"workspace", "export", "--path", "b\xff", "--out", "x"},
		{"context", "report", "--path", "b\xff"},
		{"context", "regenerate", "--stop-at", "b\xff"},
		{"context", "regenerate", "--up", "./b\xff"},
	} {
		e := answers("{}")
		assert.ErrorContains(t, d.run(e, "edn", args...).err, "not UTF-8", args)
		assert.Empty(t, e.requests)
	}
}
