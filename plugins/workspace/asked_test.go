package main

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// types returns the types of the frames in an output.
func types(out edn.Value) (list []string) {
	for f := range out.Key("frames").Elems() {
		s, _ := f.Key("frame/type").AsString()
		list = append(list, s)
	}
	return list
}

// WS-081, WS-130: :frame/type of get-node and compose selects frames of that type,
// whatever view is asked for.
func TestTypeOfReads(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/scan", `{}`)
	b.call("context/put-frame", `{:path "a" :frame/type "x" :content "1"}`)
	b.call("context/put-frame", `{:path "a" :frame/type "y" :content "2"}`)
	for _, intent := range []string{"context/get-node", "context/compose"} {
		assert.Equal(t, []string{"x"}, types(b.call(intent, `{:path "a" :frame/type "x"}`)), intent)
		assert.Empty(t, types(b.call(intent, `{:path "a" :frame/type "none"}`)), intent)
		b.fails("frame/type-invalid", intent, `{:path "a" :frame/type "a b"}`)
	}
	assert.Equal(t, []string{"y"}, types(b.call("context/get-node", `{:path "a" :frame/type "y" :view "by-type"}`)))
	assert.Len(t, types(b.call("context/get-node", `{:path "a" :view "by-type"}`)), 2, "the named view stays as it is")
}

// WS-181: ids that are cut off name nodes and frames wherever an id is taken.
func TestShortIDs(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/scan", `{}`)
	put := b.call("context/put-frame", `{:path "a" :frame/type "x" :content "1"}`)
	frame, _ := put.Key("frame/id").AsString()
	node, _ := put.Key("node/id").AsString()
	for _, n := range []string{node, node[:18], node[6:14]} {
		assert.Equal(t, put.Key("node/id").String(), b.call("context/get-node", `{:node/id "`+n+`"}`).Key("node/id").String(), n)
	}
	for i, f := range []string{frame, frame[:18], frame[6:14]} {
		text := string(rune('a' + i))
		next := b.call("context/put-frame", `{:path "a" :frame/type "`+text+`" :content "2" :basis [:both "`+f+`"]}`)
		made, _ := next.Key("frame/id").AsString()
		assert.Equal(t, edn.Int(1), b.call("context/invalidate", `{:path "a" :frame/id "`+made[:18]+`"}`).Key("invalidated"), f)
	}
	last := b.call("context/put-frame", `{:path "a" :frame/type "x" :content "3" :expect/head "`+frame[6:16]+`"}`)
	for _, related := range []string{`"` + node[:18] + `"`, `{:node/id "` + node[6:16] + `"}`, `{:path "a"}`, `{:path/b64 "YQ"}`} {
		assert.Equal(t, 1, b.call("context/compose", `{:path "." :sources [[:related [`+related+`]]] :frame/type "x"}`).Key("frames").Len(), related)
	}
	frame, _ = last.Key("frame/id").AsString()
	for text, found := range map[string]int{frame: 1, frame[:18]: 1, frame[6:14]: 1, "00000000": 0} {
		filter := `[[:frame #{"` + text + `"}]]`
		assert.Equal(t, found, b.call("context/compose", `{:path "a" :filters `+filter+`}`).Key("frames").Len(), text)
		assert.Equal(t, found, b.call("context/get-node", `{:path "a" :view {:select :history :filters `+filter+`}}`).Key("frames").Len(), text)
	}
	b.fails("input/invalid", "context/compose", `{:path "a" :filters [[:frame #{"f1-b3-00"}]]}`)
	b.fails("frame/not-found", "context/invalidate", `{:path "a" :frame/id "00000000"}`)
	b.fails("input/invalid", "context/invalidate", `{:path "a" :frame/id "f1-b3-0000"}`)
	b.fails("input/invalid", "context/invalidate", `{:path "a" :frame/id "`+node[:18]+`"}`)
}

// WS-112: a directory that became a link or a file has no frame to synthesize: it is
// skipped and fails nothing, and is made again when it is a directory again.
func TestDirectoryBecomesFile(t *testing.T) {
	b := start(t, map[string]string{"x/f": "1", "y": "2"})
	b.call("workspace/scan", `{}`)
	b.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
	at := filepath.Join(b.root, "x")
	for _, change := range []func() error{
		func() error { return os.Symlink("y", at) },
		func() error { return os.WriteFile(at, []byte("file"), 0o600) },
	} {
		require.NoError(t, os.RemoveAll(at))
		require.NoError(t, change())
		b.call("workspace/scan", `{}`)
		for range 2 {
			done := b.call("context/regenerate", `{:path "." :recursive? true}`)
			assert.Equal(t, edn.Int(0), done.Key("counts").Key("failed"), done.Key("items"))
		}
	}
	require.NoError(t, os.Remove(at))
	b.write(map[string]string{"x/f": "3"})
	b.call("workspace/scan", `{}`)
	done := b.call("context/regenerate", `{:path "." :recursive? true}`)
	assert.Equal(t, "{:directory 2 :failed 0 :file 1 :reused 0 :skipped 0}", done.Key("counts").String())
}

// WS-184, WS-210: a custom policy that does not answer in time is the timeout, and
// calls have no deadline but that of the request.
func TestCustomPolicyTimeout(t *testing.T) {
	b := scannedBench(t, map[string]string{"d/a": "1"})
	b.put("d/a", "x", "one")
	b.host.Answer("eyes/slow", func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
		assert.Equal(t, edn.Int(longest), c.Request.Key("deadline-ms"))
		return edn.MustRead(`{:error {:type :timeout/hard :message "the deadline passed" :retryable? true}}`), nil
	})
	b.fails("timeout/hard", "context/synthesize", `{:path "d" :frame/type "x" :policy {:kind :custom :intent :eyes/slow}}`)
}

// WS-210: the error of a call of another intent says what is wrong with the input, without a text of
// a frame that the input has: in a custom policy, a custom ordering and a generation, and in a cause.
func TestErrorsOfCallsHaveNoFrameText(t *testing.T) {
	const secret = "hunter2"
	b := scannedBench(t, map[string]string{"d/a": secret})
	b.put("d/a", "note", secret)
	findings := `:findings [{:path [:frames] :message "unknown key" :got "` + secret + `"}]`
	failed := map[string]string{
		"of a schema": `{:type :invalid-request :message "got ` + secret + `"
			:details {:path [:input] :reason :input/schema-invalid ` + findings + `}}`,
		"of a field": `{:type :input/invalid :message "got ` + secret + `"
			:details {:path [:frames 0] :expected "a map" :got "` + secret + `"}}`,
		"of a decoder": `{:type :input/invalid :message "decode input: got ` + secret + `"}`,
		"as a cause": `{:type :budget/exceeded :message "after: got ` + secret + `"
			:cause {:type :input/invalid :message "got ` + secret + `"}}`,
	}
	parts := map[string]string{
		"of a schema":  "[:input], :input/schema-invalid, [:frames] unknown key",
		"of a field":   `[:frames 0], expected "a map"`,
		"of a decoder": "was refused",
		"as a cause":   "budget",
	}
	calls := []struct{ intent, input, want string }{
		{"context/synthesize", `{:path "d" :frame/type "note" :policy {:kind :custom :intent :team/x}}`, "synthesis/custom-failed"},
		{"context/compose", `{:path "d/a" :ordering [:custom {:intent :team/x :content? true}]}`, "compose/custom-failed"},
		{"context/generate", `{:path "d/a" :frame/type "x" :producer :generate :intent :team/x}`, "provider/error"},
	}
	for name, answer := range failed {
		b.host.Answer("team/x", func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
			require.Contains(t, c.Request.Key("input").String(), secret)
			return edn.MustMap(edn.K("error"), edn.MustRead(answer)), nil
		})
		for _, call := range calls {
			e := b.failure(call.want, call.intent, call.input)
			assert.NotContains(t, e.Value().String(), secret, "%s %s", name, call.intent)
			assert.Contains(t, e.FullMessage(), parts[name], "%s %s", name, call.intent)
			require.NotNil(t, e.Cause, "%s %s", name, call.intent)
		}
	}
	b.host.Answer("team/x", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return edn.MustRead(`{:error {:type :provider/unavailable :message "the model is away"}}`), nil
	})
	for _, call := range calls[:2] {
		assert.Contains(t, b.failure(call.want, call.intent, call.input).FullMessage(), "the model is away")
	}
}

// WS-175: a deletion is of the paths that are known. It stays if such a path is removed from the disk and comes back; a
// path that is new later is not deleted.
func TestDeletionAndLaterPaths(t *testing.T) {
	b := scannedBench(t, map[string]string{"s/1": "one"})
	b.call("workspace/delete", `{:path "s"}`)
	made := b.call("context/generate", `{:path "." :recursive? true :frame/type "x"}`)
	why := map[string]string{}
	for i := range made.Key("items").Elems() {
		path, _ := i.Key("path").AsString()
		why[path], _ = i.Key("why").AsString()
	}
	assert.Contains(t, why["s"], "deleted in transaction")
	require.NoError(t, os.Remove(filepath.Join(b.root, "s/1")))
	b.call("workspace/scan", `{}`)
	b.write(map[string]string{"s/1": "one", "s/2": "two"})
	b.call("workspace/scan", `{}`)
	b.fails("node/deleted", "context/get-node", `{:path "s"}`)
	b.fails("node/deleted", "context/get-node", `{:path "s/1"}`)
	b.put("s/2", "x", "text")
	b.call("workspace/restore", `{:path "s"}`)
	b.call("context/get-node", `{:path "s/1"}`)
}

// WS-113, WS-220: :stop-at of a regeneration names directories of the tree, also removed or deleted ones.
func TestStopAtIsADirectory(t *testing.T) {
	b := scannedBench(t, map[string]string{"d/a": "1", "gone/a": "1", "old/a": "1"})
	b.call("workspace/delete", `{:path "old"}`)
	require.NoError(t, os.RemoveAll(filepath.Join(b.root, "gone")))
	b.call("workspace/scan", `{}`)
	b.call("context/regenerate", `{:path "." :recursive? true :stop-at ["d" "gone" "old" "."]}`)
	e := b.failure("path/not-in-tree", "context/regenerate", `{:path "." :recursive? true :stop-at ["d" "nope"]}`)
	assert.Equal(t, "[:stop-at 1]", e.Details.Key("at").String())
	assert.Contains(t, e.Hint, "directory", "the default is about the node of the request")
	b.fails("input/invalid", "context/regenerate", `{:path "." :recursive? true :stop-at ["d/a"]}`)
}

// WS-190: the error of an atomic batch names the item that failed.
func TestAtomicBatchNamesItem(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/scan", `{}`)
	failed := b.failure("path/not-in-tree", "context/batch", `{:atomic? true :items [
		{:intent :context/put-frame :input {:path "a" :frame/type "x" :content "1"}}
		{:intent :context/put-frame :input {:path "b" :frame/type "x" :content "1"}}]}`)
	assert.Equal(t, edn.Int(1), failed.Details.Key("item"))
	assert.Contains(t, failed.FullMessage(), "item 2")
	assert.Empty(t, types(b.call("context/get-node", `{:path "a"}`)), "all or none")
}

// WS-180: a data directory in which no later request would look is refused, and
// nothing is created.
func TestInitElsewhere(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.fails("input/invalid", "workspace/init", `{:data-dir "`+t.TempDir()+`"}`)
	require.NoDirExists(t, filepath.Join(b.root, ".ferment"))
	made := b.call("workspace/init", `{:data-dir "`+filepath.Join(b.root, ".ferment", "workspace")+`"}`)
	assert.True(t, made.Key("created?").Truthy())
}

// WS-044, WS-220: without workspace.edn, a store is damaged and not absent: nothing
// covers it with a new one, validate names the file, and repair restores it.
func TestLostIdentity(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/scan", `{}`)
	b.call("context/put-frame", `{:path "a" :frame/type "x" :content "kept"}`)
	b.p.Instance().Stop()
	data := filepath.Join(b.root, ".ferment", "workspace")
	require.NoError(t, os.Remove(filepath.Join(data, "workspace.edn")))
	b.p = startOn(t, b.root)
	b.fails("store/corrupt", "workspace/scan", `{}`)
	report := b.call("workspace/validate", `{}`)
	assert.False(t, report.Key("valid?").Truthy())
	first, _ := report.Key("errors").Nth(0)
	assert.Equal(t, `"workspace.edn"`, first.Key("file").String())
	b.call("workspace/repair", `{:apply? true}`)
	assert.Equal(t, []string{"x"}, types(b.call("context/get-node", `{:path "a"}`)))
}

// WS-220: names that mean nothing are errors.
func TestTypos(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/scan", `{}`)
	b.fails("path/not-in-tree", "workspace/scan", `{:paths ["nosuch"]}`)
	b.fails("path/not-in-tree", "workspace/export", `{:path "nosuch"}`)
	b.fails("input/invalid", "workspace/snapshot", `{:op :create :name "current"}`)
	require.NoError(t, os.Remove(filepath.Join(b.root, "a")))
	assert.Equal(t, edn.Int(1), b.call("workspace/scan", `{:paths ["a"]}`).Key("removed"), "a path that was removed is known")
}

// WS-094: an unknown key of a policy is named.
func TestUnknownPolicyKey(t *testing.T) {
	b := start(t, map[string]string{"d/a": "1"})
	b.call("workspace/scan", `{}`)
	failed := b.failure("input/invalid", "context/synthesize", `{:path "d" :frame/type "x" :policy {:kind :concatenate :splitter "-"}}`)
	assert.Contains(t, failed.Message, ":splitter")
	assert.Equal(t, "[:policy :splitter]", failed.Details.Key("path").String())
}

// WS-141, WS-112: every call that an intent makes carries the options of the request, also
// those of stored recipes and of custom policies and orderings.
func TestCallsCarryOptions(t *testing.T) {
	b := start(t, map[string]string{"d/a": "1"})
	b.call("workspace/scan", `{}`)
	options := edn.MustRead(`{:budget {:max-usd 0.5M} :constraints {:local? true} :dispatch {:mode :first} :done {:ok? true}}`)
	called := map[string]int{}
	answer := func(out string) func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		return func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
			intent, _ := c.Request.Key("task").Key("intent").AsKeyword()
			called[intent]++
			for key, value := range options.Entries() {
				name, _ := key.AsKeyword()
				assert.Equal(t, value.String(), c.Request.Key(name).String(), intent)
			}
			return edn.MustMap(edn.K("result"), edn.MustMap(edn.K("type"), edn.K("value"), edn.K("out"), edn.MustRead(out))), nil
		}
	}
	b.host.Answer("context/summarize", answer(`{:text "by a model"}`))
	b.host.Answer("eyes/join", answer(`{:text "joined"}`))
	b.host.Answer("eyes/rank", answer(`{:ids []}`))
	do := func(intent, input string) {
		t.Helper()
		response, err := b.p.Do(t.Context(), sdktest.Call{
			Capability: intent, Input: edn.MustRead(input), Fields: options, Context: as("ann", administer),
		})
		require.NoError(t, err)
		require.True(t, response.Key("error").IsNil(), response)
	}
	do("context/generate", `{:path "d/a" :frame/type "x" :producer :generate}`)
	do("context/synthesize", `{:path "d" :frame/type "x" :policy {:kind :custom :intent :eyes/join :deterministic? true}}`)
	do("context/regenerate", `{:path "d" :recursive? true :force? true}`)
	do("context/compose", `{:path "d" :ordering [:custom {:intent :eyes/rank}]}`)
	do("workspace/validate", `{:rerun? true}`)
	assert.Equal(t, map[string]int{"context/summarize": 2, "eyes/join": 3, "eyes/rank": 1}, called)
}

// WS-200, WS-220: what an input asks for is done or refused: the type of a history, the
// policy of first frames, the keys of a composition and of a target.
func TestAskedIsDoneOrRefused(t *testing.T) {
	b := start(t, map[string]string{"d/a": "1", "d/b": "2"})
	b.call("workspace/scan", `{}`)
	x := b.put("d/a", "x", "one").Key("frame/id").String()
	b.put("d/a", "y", "two")
	b.put("d/b", "x", "three")
	version, _ := b.call("context/history", `{:path "d/a" :frame/type "x"}`).Key("versions").Nth(0)
	assert.Equal(t, "["+x+"]", version.Key("frames").String())
	version, _ = b.call("context/history", `{:path "d/a"}`).Key("versions").Nth(0)
	assert.Equal(t, 2, version.Key("frames").Len())
	b.fails("frame/type-invalid", "context/history", `{:path "d/a" :frame/type "a b"}`)
	b.fails("input/invalid", "context/report", `{:fail-on ""}`)

	const first = `{:path "d" :frame/types ["x"] :missing :create :policy `
	b.fails("input/invalid", "context/regenerate", first+`:nonsense}`)
	b.fails("input/invalid", "context/regenerate", `{:path "d" :policy :summarize}`)
	b.call("context/regenerate", first+`{:kind :concatenate :separator "+"}}`)
	made, _ := b.call("context/get-node", `{:path "d"}`).Key("frames").Nth(0)
	text, _ := made.Key("content").AsString()
	assert.Contains(t, text, "+")

	for _, key := range []string{":include #{:deleted}", ":select :history", ":content? false", ":on-error :recency"} {
		b.fails("input/invalid", "context/compose", `{:path "d" `+key+`}`)
	}
	for _, target := range []string{`{:path "d/a" :type "x"}`, `{:path "d/a" :priority :soon}`, `{}`, `7`} {
		b.fails("input/invalid", "context/generate", `{:producer :extract/text :targets [`+target+`]}`)
	}
	for _, model := range []string{"{:cap/ref :a/b :x 1}", "{}", "7"} {
		b.fails("input/invalid", "context/generate", `{:path "d/a" :producer :extract/text :model `+model+`}`)
	}
}

// WS-025, WS-190: only what writes creates a store: neither a dry run of a scan, which
// shows what the first one would add, nor a batch of reads.
func TestReadsCreateNoStore(t *testing.T) {
	b := start(t, map[string]string{"a": "1", "d/b": "2"})
	seen := b.call("workspace/scan", `{:dry-run? true}`)
	assert.Equal(t, "4", seen.Key("added").String())
	b.call("workspace/scan", `{:dry-run? true :paths ["d"]}`)
	b.fails("path/not-in-tree", "workspace/scan", `{:dry-run? true :paths ["none"]}`)
	const head = `{:intent :context/get-head :input {:path "a" :frame/type "x"}}`
	b.fails("workspace/not-found", "context/batch", `{:items [`+head+`]}`)
	b.fails("workspace/not-found", "context/batch", `{:items [{:intent :workspace/scan :input {:dry-run? true}} `+head+`]}`)
	require.NoDirExists(t, filepath.Join(b.root, ".ferment"))
	done := b.call("context/batch", `{:items [{:intent :workspace/scan} `+head+`] :concurrency 1}`)
	assert.Equal(t, "1", done.Key("ok").String())
	item, _ := done.Key("results").Nth(0)
	assert.Equal(t, seen.Key("added").String(), item.Key("out").Key("added").String())
	assert.Equal(t, seen.Key("ignore/digest").String(), item.Key("out").Key("ignore/digest").String())
}

// WS-191: a comparison is limited to types, one or several.
func TestDiffOfTypes(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/scan", `{}`)
	before := b.call("workspace/status", `{}`).Key("seq").String()
	for _, typ := range []string{"x", "y", "z"} {
		b.put("a", typ, "of "+typ)
	}
	for types, added := range map[string]int{`["x"]`: 1, `["x" "z"]`: 2, `[]`: 3} {
		found := b.call("context/diff", `{:from `+before+` :frame/types `+types+`}`)
		assert.Equal(t, added, found.Key("frames").Key("added").Len(), types)
	}
}

// WS-002, WS-033: the rule of a path that is not UTF-8 is found.
func TestExplainPathThatIsNotText(t *testing.T) {
	b := start(t, map[string]string{".gitignore": "d/b*\n", "d/a": "1"})
	b.call("workspace/scan", `{}`)
	raw := base64.RawURLEncoding.EncodeToString([]byte("d/b\xffad2"))
	found := b.call("workspace/ignore", `{:op :explain :path/b64 "`+raw+`"}`)
	assert.Equal(t, `true ".gitignore" 1`, found.Key("ignored?").String()+" "+found.Key("source").String()+" "+found.Key("line").String())
	b.fails("input/invalid", "workspace/ignore", `{:op :explain :path "d/a" :path/b64 "`+raw+`"}`)
	b.fails("input/invalid", "workspace/ignore", `{:op :explain}`)
}

// WS-002: two names travel as two values in the changes of a scan and of a watch, also if
// one of them is what the other looks like in quotes.
func TestChangesOfPathsThatAreNotText(t *testing.T) {
	const quoted = `"\xff"`
	b := start(t, map[string]string{"\xff": "1", quoted: "2"})
	const want = `["." "\"\\xff\"" {:path/b64 "_w"}]`
	assert.Equal(t, want, b.call("workspace/scan", `{}`).Key("paths").Key("added").String())
	_, err := b.p.Do(t.Context(), callOf("workspace/watch", `{:workspace "`+b.root+`" :max-changes 1 :after 0}`,
		func(e wire.Event) {
			if e.Kind == wire.Delta && e.Value.Key("event").String() == ":change" {
				assert.Equal(t, want, e.Value.Key("added").String())
			}
		}))
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(b.root, "\xff"), filepath.Join(b.root, "\xfe")))
	assert.Equal(t, `[{:from {:path/b64 "_w"} :to {:path/b64 "_g"}}]`, b.call("workspace/scan", `{}`).Key("renamed").String())
}

// WS-022: what scans the directory can leave unreadable entries out, as the hint of the
// error says.
func TestUnreadableEntriesAreLeftOut(t *testing.T) {
	b := start(t, map[string]string{"a": "1", "d/b": "1"})
	b.call("workspace/scan", `{}`)
	require.NoError(t, os.Chmod(filepath.Join(b.root, "d"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(b.root, "d"), 0o700) })
	for intent, input := range map[string]string{
		"workspace/validate": `{:fs? true MORE}`,
		"workspace/ignore":   `{:op :add :pattern "x" :dry-run? true MORE}`,
		"workspace/scan":     `{:dry-run? true MORE}`,
		"workspace/watch":    `{:workspace "` + b.root + `" :after 0 :max-changes 1 MORE}`,
	} {
		if os.Getuid() != 0 && intent != "workspace/watch" { // root can read anything
			failed := b.failure("scan/unreadable", intent, strings.Replace(input, "MORE", "", 1))
			assert.Contains(t, failed.Message, "1 entry cannot be read")
			assert.Contains(t, failed.Hint, ":on-unreadable :skip")
		}
		input = strings.Replace(input, "MORE", ":on-unreadable :skip", 1)
		if intent != "workspace/watch" {
			b.call(intent, input)
			continue
		}
		_, err := b.p.Do(t.Context(), callOf(intent, input, func(wire.Event) {}))
		require.NoError(t, err, intent)
	}
}

// WS-230: the setting max_batch limits the items of a batch.
func TestMaxBatch(t *testing.T) {
	b := start(t, map[string]string{"a": "1"}, func(cfg map[string]any) { cfg["max-batch"] = 2 })
	b.call("workspace/scan", `{}`)
	const item = `{:intent :workspace/status} `
	assert.Equal(t, "2", b.call("context/batch", `{:items [`+strings.Repeat(item, 2)+`]}`).Key("ok").String())
	failed := b.failure("limit/exceeded", "context/batch", `{:items [`+strings.Repeat(item, 3)+`]}`)
	assert.Equal(t, ":batch 2", failed.Details.Key("limit").String()+" "+failed.Details.Key("max").String())
}
