package workspace

import (
	stdflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

var update = stdflag.Bool("update", false, "write the golden files")

// node1 and frame1 are ids as an engine writes them.
const (
	node1  = "n1-b3-9c0a51b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e"
	frame1 = "f1-b3-51c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeeff00"
	frame2 = "f1-b3-77aabbccddeeff00112233445566778899aabbccddeeff001122334455667788"
	state1 = "s1-b3-0011223344556677889900112233445566778899001122334455667788990011"
	at     = `:seq 42 :root "` + node1 + `"`
	frame  = `{:frame/id "` + frame1 + `" :frame/type "note" :frame/origin :authored :agent/id "writer" :path "src/a.go"
 :node/id "` + node1 + `" :basis/id "b1-b3-1234567890ab1234567890ab1234567890ab1234567890ab1234567890abcdef" :basis [] :state :stale
 :content/id "c1-b3-aa" :content/bytes 30 :content "Parses flags.\n\nSecond line.\n" :created-at #inst "2026-01-02T03:04:05Z" :commit 42
 :meta {:ticket "T-9"} :record/id "r1-b3-bb"}`
)

// goldens are commands with what the intent answers. The files hold the requests
// that the commands send, and their output in every format.
var goldens = []struct{ args, out string }{
	{"workspace init --scheme git-auto --data-dir store", `{:workspace/id "01J0" :scheme "git-sha1" :created? true :data-dir "/data" ` + at + `}`},
	{"workspace init", `{:workspace/id "01J0" :scheme "b3" :created? false :data-dir "/data" ` + at + `}`},
	{"workspace scan --force --path src --path ./a/../b --on-unreadable skip", `{:added 3 :modified 1 :removed 2 :unchanged 1200 :skipped 1
 :renamed [{:from "old.go" :to "new.go"}] :paths {:added ["src" "src/a.go" "src/\u202Eevil"] :modified ["."] :removed ["x" "y"]}
 :bytes-hashed 9120 :ignore/digest "a1-b3-aabbccddeeff00112233" :tree/complete? false :unreadable ["secret"] :git/exact? false
 :git/inexact [{:path "a.txt" :reason :filter}] :scan/unstable ["log.txt"] ` + at + `}`},
	{"workspace scan --dry-run --preset build-dirs --pattern *.tmp", `{:added 500 :modified 0 :removed 0 :unchanged 0 :skipped 0 :renamed []
 :paths {:added ["a"] :modified [] :removed []} :bytes-hashed 0 :ignore/digest "a1-b3-aabb" :tree/complete? true :git/exact? true :dry-run? true ` + at + `}`},
	{"workspace status --breakdown --coverage --as-of 40", `{:scanned? true :tree/complete? false :workspace/id "01J0" :scheme "b3" :state-root "` + state1 + `" :nodes {:file 1110 :dir 14}
 :frames 31 :heads {:fresh 28 :stale 3} :watch :off :damaged? false :warning "the index was rebuilt: it was missing" :top-paths [["." 124] ["src" 90]]
 :coverage [{:frame/type "digest" :with 13 :without 1 :pct 92.9}] ` + at + `}`},
	{"workspace status", `{:scanned? false :workspace/id "01J0" :scheme "b3" :nodes {} :frames 0 :heads {} :watch :off :damaged? true :seq 0}`},
	{"workspace list-deleted --older-than 90d", `{:scanned? true :deleted [{:path "old/b" :frames 2} {:path/b64 "b2xkL_8" :frames 1}] ` + at + `}`},
	{"workspace list-deleted", `{:scanned? true :deleted [] ` + at + `}`},
	{"workspace validate --quick --fs --rerun", `{:valid? true :state-root "` + state1 + `" :nodes 124 :frames 31 :errors [] :warnings [{:code :drift :path "src/a.go" :message "the file changed since the scan"}] ` + at + `}`},
	{"workspace validate", `{:valid? false :nodes 124 :frames 31 :errors [{:code :store/corrupt :file "log/000001.seg" :seq 17 :frame/id "` + frame1 + `" :message "the record does not match its hash"}] :warnings []}`},
	{"workspace validate --rerun", `{:valid? false :nodes 2 :frames 1 :errors [{:code :synthesis/nondeterministic :path "src" :message "the recipe now gives another text"}] :warnings [{:code :rerun/failed :path "d" :message "no host is connected"}]}`},
	{"workspace validate --fs --on-unreadable skip", `{:valid? true :nodes 2 :frames 1 :errors [] :warnings []}`},
	{"workspace repair --dry-run", `{:would [:rebuild-index :new-log] :lost [{:path "d/a" :frame/id "` + frame1 + `"} {:path/b64 "b2xkL_8" :frame/id "` + frame2 + `"}] ` + at + `}`},
	{"workspace repair --yes", `{:did [:rebuild-index] :lost [] :quarantined ["log/000001.seg"] ` + at + `}`},
	{"workspace ignore list", `{:patterns ["*.tmp" "build/"] ` + at + `}`},
	{"workspace ignore add *.log build/ --dry-run", `{:added 2 :changes {:added [] :removed ["a.log"]} :dry-run? true ` + at + `}`},
	{"workspace ignore remove *.log", `{:removed 1 ` + at + `}`},
	{"workspace ignore explain build/", `{:ignored? true :source ".gitignore" :line 3 :pattern "build/" ` + at + `}`},
	{"workspace ignore explain pipe", `{:ignored? false :source nil :skipped "it is a FIFO" ` + at + `}`},
	{"workspace ignore explain .git/config", `{:ignored? true :source "built-in" :pattern ".git" :at ".git" ` + at + `}`},
	{"workspace ignore explain a.go", `{:ignored? false :source nil :line nil :pattern nil ` + at + `}`},
	{"workspace snapshot list", `{:snapshots [{:name "run-17" :commit 42}] ` + at + `}`},
	{"workspace snapshot create run-17 --commit 40", `{:name "run-17" :commit 40 ` + at + `}`},
	{"workspace snapshot remove run-17", `{:name "run-17" :removed? true ` + at + `}`},
	{"workspace import note.txt --yes --on-conflict keep-local", `{:imported 12 :existing 3 :restored 2 :conflicts [{:frame/id "` + frame1 + `" :kept :local}] ` + at + `}`},
	{"workspace compact --ttl 90d --keep 1000 --yes", `{:purged 3 :bytes-freed 40211 ` + at + `}`},
	{"workspace delete src/old --yes", `{:tombstoned 5 ` + at + `}`},
	{"workspace delete src/old --dry-run", `{:tombstoned 5 :dry-run? true ` + at + `}`},
	{"workspace restore src/old", `{:restored 1 ` + at + `}`},
	{"context get-node src/a.go --max-frames 10 --ordering type --include-deleted --type note", `{:node/id "` + node1 + `"
 :node {:node/id "` + node1 + `" :path "src/a.go" :kind :file :mode "100644" :size 812 :content/id "c1-b3-00112233445566778899" :lineage {:version 2 :since 40 :renamed-from "a.go"}}
 :frames [` + frame + ` {:frame/type "log" :frame/origin :extracted :agent/id "writer" :frame/id "` + frame2 + `" :content/bytes 70000 :content/omitted? true :created-at #inst "2026-01-02T03:04:06Z"}]
 :frame/count 4 :frame/matched 2 :frame/returned 2 ` + at + `}`},
	{"context get-node --view fresh", `{:node/id "` + node1 + `" :node {:node/id "` + node1 + `" :path "." :kind :dir :mode "040000" :size 0 :content/id "c1-b3-00112233445566778899"
 :children [{:name "src" :kind :dir :node/id "` + node1 + `"} {:name/b64 "YQpi" :kind :file :node/id "` + node1 + `"}]} :frames [] :frame/count 0 :frame/matched 0 :frame/returned 0 ` + at + `}`},
	{"context get-node 9c0a51b2 --combine", `{:node/id "x" :node {} :frames [` + frame + ` ` + frame + `] :frame/count 2 :frame/matched 2 :frame/returned 2 ` + at + `}`},
	{"context put-frame src/a.go note.txt --type note --meta ticket=T-9 --content-type text/plain --expect-head none", `{:frame/id "` + frame1 + `" :frame/existing? false :head/previous nil :node/id "` + node1 + `" ` + at + `}`},
	{"context put-frame ./a.go note.txt", `{:frame/id "` + frame1 + `" :frame/existing? true :head/previous "` + frame2 + `" :node/id "` + node1 + `" ` + at + `}`},
	{"context list-frames src/a.go --type note --by writer --origin authored --state stale --limit 20 --cursor abc", `{:frames [` + frame + `] :cursor "bmV4dA" ` + at + `}`},
	{"context list-frames", `{:frames [] :cursor nil ` + at + `}`},
	{"context get-head src --type digest", `{:frame/id "` + frame1 + `" :state :stale :reasons [:node-changed] :frame ` + frame + ` ` + at + `}`},
	{"context history src/a.go --limit 2", `{:versions [{:node/id "` + node1 + `" :content/id "c" :mode "100644" :size 812 :since 40 :renamed-from "b.go" :frames ["` + frame1 + `"]} {:node/id "` + node1 + `" :content/id "c" :mode "100755" :size 1 :since 2 :until 40 :frames []}] :cursor "bmV4dA" ` + at + `}`},
	{"context synthesize src --type digest --policy summarize --recursive --binds inputs --on-stale exclude", `{:frame/id "` + frame1 + `" :frame/existing? false :basis/id "b1-b3-1234567890ab1234567890" :inputs 3 :stale-inputs 1 :built 2 :reused 1 :omitted 1 :skipped ["src/x"] ` + at + `}`},
	{"context synthesize --type * --into all --policy {:kind,:filter,:fresh-only?,true}", `{:frame/id "` + frame1 + `" :frame/existing? true :basis/id "b1-b3-1234567890ab1234567890" :inputs 1 :stale-inputs 0 :built 0 :reused 0 ` + at + `}`},
	{"context regenerate --recursive --type digest --up 2 --stop-at vendor --missing create --policy concatenate", `{:counts {:file 1 :directory 3 :reused 0 :skipped 1 :failed 0} :items [{:path "src" :frame/type "digest" :old "` + frame2 + `" :new "` + frame1 + `" :reason :child-changed :stale-inputs 1}] :authored-stale [["README.md" "note"]] ` + at + `}`},
	{"context regenerate .", `{:counts {:file 0 :directory 0 :reused 0 :skipped 0 :failed 0} :items [] :authored-stale [] ` + at + `}`},
	{"context regenerate src --up root --generated skip --force", `{:counts {:failed 1} :items [{:path "src" :frame/type "s" :error {:type :agent/unknown :message "there is no agent x" :hint "choose one of a, b"}}] :authored-stale [] ` + at + `}`},
	{"context invalidate src --recursive --type digest", `{:invalidated 2 ` + at + `}`},
	{"context compose src/a.go --source current --source parent --source README.md --query flags --order relevance --max-frames 5 --filter [:type,#{\"note\"}]", `{:frames [` + frame + `] :skipped ["parent"] :omitted 2 ` + at + `}`},
	{"context compose --ids --order [:type-priority,[\"note\"]]", `{:ids ["` + frame1 + `"] :skipped [] :omitted 0 ` + at + `}`},
	{"context generate src/a.go --model ollama/voice --intent context/summarize --force", `{:frame/id "` + frame1 + `" :frame/existing? false :attribution {:cap/id :ollama/voice :provider {:name "ollama" :type :ollama :model "llama3.1"} :usage {:tokens-in 480 :tokens-out 32 :tokens-mark :exact}} ` + at + `}`},
	{"context generate . --recursive --plan --priority high --on-failure continue --concurrency 2", `{:items [{:path "bin/tool" :frame/type "s" :old nil :new nil :reason :missing :outcome :skipped :why "the file has 20000000 bytes, more than 262144" :ms 0} {:path "src/a.go" :frame/type "s" :old nil :new "` + frame1 + `" :reason :missing :outcome :made :ms 3} {:path "src/b.go" :frame/type "s" :old "` + frame1 + `" :new "` + frame1 + `" :outcome :reused :why "its frame is fresh" :ms 0}] :counts {:file 1 :directory 0 :reused 1 :skipped 1 :failed 0} ` + at + `}`},
	{"context generate --plan", `{:frames [{:frame/id "` + frame1 + `"}]}`},
	{"context batch calls.edn --concurrency 8 --atomic", `{:results [{:out {:state :fresh}} {:error {:type :frame/no-head :message "there is no head"}}] :ok 1 :failed 1 ` + at + `}`},
	{"context diff run-17 --content --path src --type digest", `{:nodes {:added ["n"] :modified ["src/a.go"] :removed [] :renamed [["a" "b"]]} :frames {:stale [["src" "digest"]] :head-moved [{:path "src" :frame/type "digest" :old "` + frame2 + `" :new "` + frame1 + `"}]}
 :texts [{:path "src" :frame/type "digest" :diff "--- a\n+++ b\n-x\n+y\n"}] :warnings ["the ignore rules differ"] ` + at + `}`},
	{"context diff ./note.txt", `{:equal? true :nodes {} :frames {} ` + at + `}`},
	{"context diff 1 3", `{:equal? false :nodes {} :frames {} :state-roots ["s1-b3-` + strings.Repeat("1", 64) + `" "s1-b3-` + strings.Repeat("2", 64) + `"] ` + at + `}`},
	{"context diff 1 2", `{:nodes {:added [] :modified [] :removed [] :renamed []} :frames {} ` + at + `}`},
	{"context report --fail-on stale|missing:digest --path src", ""}, // engineReport
	{"context report -o markdown", `{:text "# Report\n\n| a |\n" ` + at + `}`},
	{"context agents list", `{:agents [{:agent/id "writer" :role :writer :valid? true}
 {:agent/id "docs" :role :writer :valid? false
 :problems ["no prompt \"system\" is configured" "no prompt \"file\" is configured"]}]}`},
	{"context agents show docs", `{:agent/id "docs" :role :writer :capabilities #{:frame/append :context/read} :model "openai/voice" :principals ["user/3"] :prompts {:system "Be brief."} :valid? true}`},
	{"context agents validate", `{:agents [{:agent/id "writer" :role :writer :valid? true :problems []}]}`},
	{"context agents validate docs", `{:agent/id "docs" :role :writer :capabilities #{:frame/append :frame/generate}
 :prompts {:system "" :file "" :directory "d"} :valid? false
 :problems ["no prompt \"system\" is configured" "no prompt \"file\" is configured"]}`},
}

// WS-180 to WS-182: every verb sends its flags under the right keys, and prints
// what the intent answers: as text that fits 100 columns and holds no character
// that acts on a terminal, as JSON and as canonical EDN.
func TestGoldenOutput(t *testing.T) {
	files := map[string]*strings.Builder{}
	var names []string
	for _, g := range goldens {
		args := strings.Fields(strings.ReplaceAll(g.args, ",", "\x00"))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}
		d := newDesk(t)
		require.NoError(t, os.WriteFile(filepath.Join(d.root, "calls.edn"), []byte(`[{:intent :context/get-head :input {:path "a"}}]`), 0o644))
		if g.out == "" {
			g.out = engineReport(t)
		}
		name := verbOf(t, args)
		if files[name] == nil {
			files[name] = &strings.Builder{}
			names = append(names, name)
		}
		b := files[name]
		fmt.Fprintf(b, "$ ferment %s\n", strings.Join(args, " "))
		for _, format := range []string{"text", "json", "edn"} {
			e := answers(g.out)
			got := d.run(e, format, args...)
			require.Empty(t, got.stderr, g.args)
			assert.Empty(t, got.asked, g.args)
			if format == "text" {
				for _, input := range e.inputs() {
					fmt.Fprintf(b, "sends %s\n", strings.ReplaceAll(input, d.root, "ROOT"))
				}
				fmt.Fprintf(b, "exits %d\n", got.code)
				assertPrintable(t, got.stdout)
			}
			fmt.Fprintf(b, "-- %s\n%s", format, got.stdout)
		}
		b.WriteByte('\n')
	}
	for _, name := range names {
		file := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".golden")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(files[name].String()), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), files[name].String(), name)
	}
	for _, v := range verbs {
		switch v.words {
		case "workspace watch", "workspace export", "workspace graph": // TestWatch, TestExport, TestGraph
		default:
			assert.Contains(t, names, v.words, "every verb has golden output")
		}
	}
}

// verbOf returns the words of the verb of a command line.
func verbOf(t *testing.T, args []string) string {
	for n := 3; n > 1; n-- {
		for _, v := range verbs {
			if len(args) >= n && v.words == strings.Join(args[:n], " ") {
				return v.words
			}
		}
	}
	require.Fail(t, "no verb", args)
	return ""
}

// assertPrintable checks text for people.
func assertPrintable(t *testing.T, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		assert.LessOrEqual(t, len([]rune(line)), diag.Columns, line)
		assert.Equal(t, strings.TrimRight(line, " "), line, "no blanks at the end")
		for _, r := range line {
			assert.False(t, r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e, "%q", line)
		}
	}
}
