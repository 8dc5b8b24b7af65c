package workspace

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-181: without --agent and FERMENT_AGENT the setting of the plugin decides; the
// request names the built-in agent that acts if it has none.
func TestAgents(t *testing.T) {
	for name, tc := range map[string]struct {
		args, env, want string
	}{
		"flag":                 {"workspace status --agent docs", "other", `{:agent/id "docs"}`},
		"environment":          {"workspace status", "docs", `{:agent/id "docs"}`},
		"built-in reader":      {"workspace status", "", `{:agent/fallback "reader"}`},
		"built-in writer":      {"workspace scan", "", `{:agent/fallback "writer"}`},
		"built-in synthesis":   {"context regenerate", "", `{:agent/fallback "synthesis" :path "."}`},
		"administrator's verb": {"workspace compact --yes", "docs", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if tc.env != "" {
				d.env["FERMENT_AGENT"] = tc.env
			}
			e := answers("{}")
			require.NoError(t, d.run(e, "edn", strings.Fields(tc.args)...).err)
			assert.Equal(t, tc.want, e.requests[0].Key("input").Dissoc(edn.K("workspace")).String())
		})
	}
}

// WS-181: the workspace is the nearest directory above with a store, and paths are
// relative to the working directory.
func TestPlaces(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.MkdirAll(filepath.Join(d.root, "src", "inner"), 0o755))
	elsewhere := t.TempDir()
	long := strings.Repeat("ab", 32)
	for _, tc := range []struct{ dir, args, root, node string }{
		{d.root, "context get-node", d.root, `:path "."`},
		{d.root, "context get-node .", d.root, `:path "."`},
		{d.root, "context get-node src/", d.root, `:path "src"`},
		{filepath.Join(d.root, "src"), "context get-node", d.root, `:path "src"`},
		{filepath.Join(d.root, "src", "inner"), "context get-node ../a.go", d.root, `:path "src/a.go"`},
		{filepath.Join(d.root, "src"), "context get-node " + d.root + "/x", d.root, `:path "x"`},
		{elsewhere, "context get-node a.go --workspace " + d.root, d.root, `:path "a.go"`},
		{elsewhere, "context get-node a.go", elsewhere, `:path "a.go"`},
		{d.root, "context get-node 9c0a51b2", d.root, `:node/id "9c0a51b2"`},
		{d.root, "context get-node ./9c0a51b2", d.root, `:path "9c0a51b2"`},
		{d.root, "context get-node 9c0a51b", d.root, `:path "9c0a51b"`},
		{d.root, "context get-node n1-b3-" + long, d.root, `:node/id "n1-b3-` + long + `"`},
		{d.root, "context get-node n1-b3-ZZZZ", d.root, `:node/id "n1-b3-ZZZZ"`}, // WS-220: its error is about an id
		{d.root, "context get-node N1-b3-956bd1f3d962", d.root, `:node/id "N1-b3-956bd1f3d962"`},
		{d.root, "context get-node ./n1-b3-ZZZZ", d.root, `:path "n1-b3-ZZZZ"`},
		{d.root, "context get-node n1-notes-a", d.root, `:path "n1-notes-a"`},
		{d.root, "context get-node a\x01b", d.root, `:path/b64 "YQFi"`},
		{d.root, "context get-node a\xffb", d.root, `:path/b64 "Yf9i"`},
	} {
		d.dir = tc.dir
		e := answers("{}")
		require.NoError(t, d.run(e, "edn", strings.Fields(tc.args)...).err, tc.args)
		if tc.root == elsewhere { // without a store, the engine is asked first where there is one
			assert.Len(t, e.requests, 2)
			e.requests = e.requests[1:]
		}
		input := e.requests[0].Key("input")
		assert.True(t, edn.Equal(edn.Text(tc.root), input.Key("workspace")), "%s: %s", tc.args, input)
		assert.Equal(t, []string{"{" + tc.node + "}"}, e.inputs(), tc.args)
	}
}

// WS-181: the nearest directory above with a store is the workspace also if the store lies
// elsewhere, which the engine knows.
func TestPlaceWithStoreElsewhere(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	sub := filepath.Join(root, "src", "inner")
	require.NoError(t, os.MkdirAll(sub, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(root, link))
	inner := filepath.Join(t.TempDir(), "inner")
	require.NoError(t, os.Symlink(sub, inner))
	for _, tc := range []struct{ dir, args, root, input string }{
		{sub, "workspace scan", root, `{}`},
		{sub, "workspace init", root, `{}`},
		{sub, "context get-node ../a.go", root, `{:path "src/a.go"}`},
		{filepath.Join(link, "src"), "context get-node a.go", link, `{:path "src/a.go"}`},
		{inner, "context get-node a.go", root, `{:path "src/inner/a.go"}`},
		{root, "workspace status --workspace " + sub, sub, `{}`}, // what is named is not looked for
	} {
		d := newDesk(t)
		d.dir = tc.dir
		e := answers("{}")
		e.answer = func(intent string, input edn.Value) (edn.Value, *contract.Error) {
			at, _ := input.Key("workspace").AsString()
			if real, err := filepath.EvalSymlinks(at); err != nil || real != root {
				return edn.Nil(), contract.Errorf("workspace/not-found", "no workspace").WithDetail("nearest", edn.Text(root))
			}
			return edn.MustMap(), nil
		}
		_ = d.run(e, "edn", strings.Fields(tc.args)...)
		last := len(e.requests) - 1
		assert.Equal(t, tc.root, plain(e.requests[last].Key("input").Key("workspace")), tc.args)
		assert.Equal(t, tc.input, e.inputs()[last], tc.args)
		assert.Equal(t, len(e.opened), e.closed)
	}
}

// WS-185: the next command is about the workspace that --workspace named.
func TestNextCommandKeepsTheWorkspace(t *testing.T) {
	d := newDesk(t)
	d.dir = t.TempDir()
	missing := contract.Errorf("path/not-in-tree", "it was not scanned")
	hinted := contract.Errorf("store/read-only", "damaged").
		WithHint("run `ferment workspace validate` and `ferment workspace repair`")
	for err, want := range map[*contract.Error]string{
		missing: "next: ferment workspace ignore explain 'a b' --workspace " + d.root,
		hinted: `next: run "ferment workspace validate --workspace ` + d.root +
			`" and "ferment workspace repair --workspace ` + d.root + `"`,
	} {
		got := d.run(fails(err), "text", "context", "get-node", "a b", "--workspace", d.root)
		assert.Contains(t, strings.Join(strings.Fields(got.stderr), " "), want)
	}
}

// WS-183, WS-184: what is wrong with a command line is known before anything is
// started, and says what was expected.
func TestMisuse(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.WriteFile(filepath.Join(d.root, "one.edn"), []byte(":a"), 0o644))
	for args, want := range map[string]string{
		"context get-node ../x":                             `outside the workspace`,
		"context get-node a b":                              `accepts`,
		"context put-frame a":                               `accepts between 2 and 2 arg`,
		"context get-node --max-frames -1":                  `expected a whole number`,
		"context get-node --as-of 18446744073709551615":     `from 0 to 9223372036854775807`,
		"context get-node --max-frames 9223372036854775808": `from 0 to 9223372036854775807`,
		"context get-node --view fresh --max-frames 3":      `--view NAME has its own limits`,
		"context get-node --view {:a":                       `expected EDN`,
		"context get-node --view bad{":                      `expected a name of letters, digits and the characters . _ - /, or EDN`,
		"context get-node --ordering name":                  `expected recency, type or agent`,
		"context get-head a":                                `get-head needs --type TYPE`,
		"context synthesize a":                              `synthesize needs --type TYPE`,
		"context put-frame a note.txt --meta T-9":           `expected NAME=VALUE`,
		"context compose --filter [":                        `--filter [: expected EDN`,
		"context generate --stream --plan":                  `--plan has no text to stream`,
		"context report --section 9x":                       `--section 9x`,
		"context report --template t -o junit":              `expected it without -o junit`,
		"context batch one.edn":                             `expected a list of calls`,
		"context batch note.txt":                            `a second form follows the first`,
		"workspace scan --path ../x":                        `outside the workspace`,
		"workspace scan --on-unreadable stop":               `expected fail or skip`,
		"workspace scan --timeout 0s":                       `expected a time`,
		"workspace scan --progress loud":                    `expected bar, plain, json or none`,
		"workspace list-deleted --older-than soon":          `expected a time`,
		"workspace watch --up root":                         `belong to --regenerate`,
		"workspace watch --debounce -5ms":                   `expected a time`,
		"workspace ignore add":                              `requires at least 1 arg`,
		"workspace init --scheme md5":                       `expected b3, s2, git-auto, git-sha1 or git-sha256`,
		"workspace snapshot create run --commit yesterday":  `expected a whole number`,
	} {
		e := answers("{}")
		got := d.run(e, "text", strings.Fields(args)...)
		assert.Equal(t, 2, got.code, args)
		assert.ErrorContains(t, got.err, want, args)
		assert.Empty(t, e.opened, "%s: nothing is started", args)
		assert.Empty(t, got.stdout, args)
	}
}

// WS-182, CLI-005: what destroys shows the result of a dry run and asks; a refusal
// changes nothing. Programs must say --yes.
func TestAsksFirst(t *testing.T) {
	for _, tc := range []struct{ args, dry, act string }{
		{"workspace repair", `{:apply? false}`, `{:apply? true}`},
		{"workspace compact --ttl 1d", `{:dry-run? true :ttl "1d"}`, `{:ttl "1d"}`},
		{"workspace import note.txt", `{:content/b64 "UGFyc2VzIGZsYWdzLgo=" :dry-run? true}`, `{:content/b64 "UGFyc2VzIGZsYWdzLgo="}`},
		{"workspace delete old", `{:dry-run? true :path "old"}`, `{:path "old"}`},
	} {
		d := newDesk(t)
		args := strings.Fields(tc.args)
		e := answers(`{:would [:rebuild-index]}`)
		got := d.run(e, "text", args...)
		require.NoError(t, got.err, tc.args)
		assert.NotEmpty(t, got.asked, tc.args)
		assert.Equal(t, []string{tc.dry, tc.act}, e.inputs(), tc.args)

		d.confirm = false
		e = answers(`{}`)
		assert.Equal(t, 1, d.run(e, "text", args...).code, tc.args)
		assert.Equal(t, []string{tc.dry}, e.inputs(), tc.args)

		e = answers(`{}`)
		got = d.run(e, "json", args...)
		assert.ErrorContains(t, got.err, "--yes", tc.args)
		assert.Empty(t, e.opened, tc.args)

		e = answers(`{}`)
		got = d.run(e, "json", append(args, "--yes")...)
		require.NoError(t, got.err, tc.args)
		assert.Empty(t, got.asked)
		assert.Equal(t, []string{tc.act}, e.inputs(), tc.args)

		e = answers(`{}`)
		got = d.run(e, "json", append(args, "--dry-run", "--yes")...)
		require.NoError(t, got.err, tc.args)
		assert.Equal(t, []string{tc.dry}, e.inputs(), "%s: a dry run acts never", tc.args)
	}
}

// WS-185: an error says what failed, on which object, why, and one next step.
func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		args string
		err  *contract.Error
		code int
		want string
	}{
		{"context get-node src/x.go", contract.Errorf("path/not-in-tree", "ignored by .gitignore:3 \"*.go\"").WithOp("path", `"src/x.go"`), 5,
			"ferment context get-node: path \"src/x.go\": ignored by .gitignore:3 \"*.go\" (:path/not-in-tree)\n  next: ferment workspace ignore explain src/x.go\n"},
		{"context get-node a'b", contract.Errorf("path/not-in-tree", "x"), 5,
			"ferment context get-node: x (:path/not-in-tree)\n  next: ferment workspace ignore explain 'a'\\''b'\n"},
		{"context get-node 9c0a51b2", contract.Errorf("node/ambiguous", "the prefix fits 2 nodes").WithDetail("matches", edn.MustRead(`["n1-b3-9c0a51b2aa" "n1-b3-9c0a51b2bb"]`)), 2,
			"ferment context get-node: the prefix fits 2 nodes (:node/ambiguous)\n  n1-b3-9c0a51b2aa\n  n1-b3-9c0a51b2bb\n  next: use more digits\n"},
		{"context put-frame old note.txt --type note",
			contract.Errorf("node/deleted", "it is gone").WithHint("restore it with `ferment workspace restore PATH`"), 5,
			"ferment context put-frame: it is gone (:node/deleted)\n  next: restore it with \"ferment workspace restore old\"\n"},
		{"workspace scan", contract.Errorf("scan/unreadable", "1 entry cannot be read").WithDetail("paths", edn.MustRead(`["a\u001B[2Jb"]`)).WithHint("use --on-unreadable skip"), 3,
			"ferment workspace scan: 1 entry cannot be read (:scan/unreadable)\n  \"a\\x1b[2Jb\"\n  next: use --on-unreadable skip\n"},
		{"context generate", contract.Errorf("provider/error", "no answer passed").WithCause(contract.Errorf("eval/must-failed", "short")), 1,
			"ferment context generate: no answer passed (:provider/error)\n  cause: short (:eval/must-failed)\n  next: try again later, or use another model\n"},
		{"workspace compact --yes", contract.Errorf("agent/role-denied", "no"), 4,
			"ferment workspace compact: no (:agent/role-denied)\n  next: ferment context agents list\n"},
		{"context batch calls.edn", contract.Errorf("path/not-in-tree", "x").WithDetail("path", edn.Text("no pe")), 5,
			"ferment context batch: x (:path/not-in-tree)\n  next: ferment workspace ignore explain 'no pe'\n"},
		{"context batch calls.edn", contract.Errorf("head/conflict", "x"), 6, "ferment context batch: x (:head/conflict)\n  next: read the head again\n"},
		{"context generate", contract.Errorf("frame/no-head", "x"), 5, "ferment context generate: x (:frame/no-head)\n  next: ferment context list-frames .\n"},
		{"context generate id_rsa", contract.Errorf("generate/denied", "x"), 4,
			"ferment context generate: x (:generate/denied)\n  next: choose another path, or change never_send in the configuration of the workspace\n"},
		{"context put-frame a note.txt", contract.Errorf("frame/invalid", "node act: the text is not UTF-8"), 2,
			"ferment context put-frame: the text is not UTF-8 (:frame/invalid)\n  next: correct the frame where the message says\n"},
		{"workspace status", contract.Errorf("invalid-request", "x").WithDetail("reason", edn.K("intent/not-supported")), 3,
			"ferment workspace status: no capability of the configuration serves :workspace/status (:runtime/not-ready)\n  cause: x (:invalid-request)\n" +
				"  next: add the plugin \"workspace\" to ferment.hcl, or run the command where ferment.hcl has it\n"},
	} {
		d := newDesk(t)
		require.NoError(t, os.WriteFile(filepath.Join(d.root, "calls.edn"), []byte("[]"), 0o644))
		got := d.run(fails(tc.err), "text", strings.Fields(tc.args)...)
		assert.Equal(t, tc.code, got.code, tc.args)
		assert.Equal(t, tc.want, got.stderr, tc.args)
		assert.Empty(t, got.stdout, tc.args)
		got = d.run(fails(tc.err), "edn", strings.Fields(tc.args)...)
		assert.Equal(t, tc.code, got.code, tc.args)
		v, err := edn.ReadString(strings.TrimSpace(got.stderr))
		require.NoError(t, err, tc.args)
		assert.True(t, v.Key("type").IsKeyword(), tc.args)
	}
}

// WS-186: an interrupt ends every verb with its own error, and what was opened is
// closed.
func TestInterrupt(t *testing.T) {
	interrupted := errors.New("interrupted")
	for i := range verbs {
		v := &verbs[i]
		d := newDesk(t)
		require.NoError(t, os.WriteFile(filepath.Join(d.root, "calls.edn"), []byte("[]"), 0o644))
		args := strings.Fields(v.words)
		for range max(0, v.takes[0]) {
			args = append(args, map[bool]string{true: "calls.edn", false: "note.txt"}[v.words == "context batch"])
		}
		for _, f := range []string{"type"} {
			for _, known := range v.flags {
				if known.name == f && known.kind == kindText {
					args = append(args, "--type", "note")
				}
			}
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		e := answers("{}")
		e.during = func() { cancel(interrupted) }
		got := d.runIn(ctx, e, "text", args...)
		assert.ErrorIs(t, got.err, interrupted, v.words)
		assert.Equal(t, 1, e.closed, v.words)
		assert.Empty(t, got.stdout, v.words)
	}
}

// WS-174: export writes the bytes that the stream and the output hold, once their
// hash fits.
func TestExport(t *testing.T) {
	content := []byte("FRM\x00\x01 a whole state\n")
	sum := blake3.Sum256(content)
	out := func(rest []byte) string {
		return `{:blob "b3:` + hex.EncodeToString(sum[:]) + `" :frames 12 :bytes 20 :content/b64 "` + base64.StdEncoding.EncodeToString(rest) + `"}`
	}
	chunk := edn.MustRead(`{:event :delta :value {:kind :chunk :content/b64 "` + base64.RawURLEncoding.EncodeToString(content[:7]) + `"}}`)
	d := newDesk(t)
	e := answers(out(content[7:]))
	e.events = []edn.Value{chunk}
	got := d.run(e, "text", "workspace", "export", "--path", "src", "--history", "--type", "digest", "--by", "docs")
	require.NoError(t, got.err)
	assert.Equal(t, string(content), got.stdout)
	assert.Contains(t, got.stderr, "exported 12 frames")
	assert.Equal(t, []string{`{:agents ["docs"] :chunks? true :frame/types ["digest"] :history? true :path "src"}`}, e.inputs())

	e = answers(out(content))
	got = d.run(e, "edn", "workspace", "export", "--out", "state.frm")
	require.NoError(t, got.err)
	written, err := os.ReadFile(filepath.Join(d.root, "state.frm"))
	require.NoError(t, err)
	assert.Equal(t, content, written)
	assert.NotContains(t, got.stdout, "content/b64")
	assert.Contains(t, got.stdout, ":frames 12")

	e = answers(out(content[1:]))
	got = d.run(e, "text", "workspace", "export", "--out", "broken.frm")
	assert.Equal(t, 1, got.code)
	assert.NoFileExists(t, filepath.Join(d.root, "broken.frm"))
}

// graph writes the page to standard output that is not a terminal, else to a file.
func TestGraph(t *testing.T) {
	d := newDesk(t)
	page := `{:html "<!doctype html>\n<p>tree</p>\n"}`
	got := d.run(answers(page), "text", "workspace", "graph")
	require.NoError(t, got.err)
	assert.Equal(t, "<!doctype html>\n<p>tree</p>\n", got.stdout)
	e := answers(page)
	got = d.run(e, "text", "workspace", "graph", "--out", "tree.html", "--path", "./src")
	require.NoError(t, got.err)
	assert.Equal(t, []string{`{:path "src"}`}, e.inputs())
	assert.Empty(t, got.stdout)
	assert.Equal(t, "wrote tree.html (28 bytes)\n", got.stderr)
	assert.FileExists(t, filepath.Join(d.root, "tree.html"))
}

// WS-193: a condition of --fail-on that holds, and differing states with
// --exit-code, are negative results behind the whole output. TestWorkspaceAgents has
// the agents of the plugin itself.
func TestNegativeResults(t *testing.T) {
	met := edn.MustRead(engineReport(t))
	unmet := met.AssocKey("fail-on", met.Key("fail-on").AssocKey("met?", edn.Bool(false)))
	for args, out := range map[string]string{
		"context report --fail-on stale": met.String(),
		"context diff 1 2 --exit-code":   `{:nodes {:added ["a"]} :frames {}}`,
		"workspace validate":             `{:valid? false :errors [{:code :x :message "y"}]}`,
		"context agents validate":        `{:agents [{:agent/id "docs" :valid? false}]}`,
		"context agents validate docs":   `{:agent/id "docs" :valid? false}`,
	} {
		got := newDesk(t).run(answers(out), "text", strings.Fields(args)...)
		assert.Equal(t, 1, got.code, args)
		assert.NotEmpty(t, got.stdout, args)
	}
	for args, out := range map[string]string{
		"context report --fail-on stale": unmet.String(),
		"context report":                 met.Dissoc(edn.K("fail-on")).String(),
		"context diff 1 2":               `{:nodes {:added ["a"]} :frames {}}`,
		"context diff 1 2 --exit-code":   `{:nodes {:added []} :frames {}}`,
	} {
		assert.Equal(t, 0, newDesk(t).run(answers(out), "text", strings.Fields(args)...).code, args)
	}
}

// engineReport returns the output of context/report that the engine's own test holds.
func engineReport(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../../../../../plugins/workspace/core/report/testdata/report.edn"))
	require.NoError(t, err)
	return string(text)
}

// report --template writes the report with a template of the user.
func TestReportTemplate(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.WriteFile(filepath.Join(d.root, "t.txt"), []byte("{{range .coverage}}{{index . \"frame/type\"}} {{.pct}}\n{{end}}"), 0o644))
	got := d.run(answers(`{:coverage [{:frame/type "digest" :pct 92.9}]}`), "text", "context", "report", "--template", "t.txt")
	require.NoError(t, got.err)
	assert.Equal(t, "digest 92.9\n", got.stdout)
}

// generate --stream prints the text while it arrives, and the frame id after it; as
// EDN one value per line.
func TestGenerateStream(t *testing.T) {
	d := newDesk(t)
	stream := func() *engine {
		e := answers(`{:frame/id "` + frame1 + `" :frame/existing? false}`)
		e.events = []edn.Value{edn.MustRead(`{:event :provisional :text "A file "}`), edn.MustRead(`{:event :delta :value {:kind :text :text "of flags."}}`)}
		return e
	}
	got := d.run(stream(), "text", "context", "generate", "a.go", "--stream")
	require.NoError(t, got.err)
	assert.Equal(t, "A file of flags.\nmade frame f1-b3-51c2d3e4f506\n", got.stdout)
	got = d.run(stream(), "edn", "context", "generate", "a.go", "--stream")
	require.NoError(t, got.err)
	assert.Equal(t, 3, strings.Count(got.stdout, "\n"))
}
