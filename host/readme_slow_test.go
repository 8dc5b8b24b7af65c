//go:build slow

package host_test

import (
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HCL-011, EMB-009: every command and configuration in the documents works as it stands, or says why it cannot be
// run here.
func TestDocuments(t *testing.T) {
	r := newReader(t)
	skipped := 0
	for _, document := range documents(t) {
		for i, f := range fencesOf(t, document) {
			if f.skipped != "" {
				skipped++
				continue
			}
			if slices.Contains(shown, f.language) {
				continue
			}
			run := map[string]func(*testing.T, fence){
				"sh": r.commands, "console": r.console, "hcl": r.configuration, "edn": r.value, "json": r.json, "go": r.program,
			}[f.language]
			require.NotNil(t, run, "%s has a sample in %s, for which there is no rule", document, f.language)
			t.Run(strings.TrimPrefix(document, "../")+" "+f.language+" "+string(rune('a'+i)), func(t *testing.T) { run(t, f) })
		}
	}
	assert.LessOrEqual(t, skipped, 3, "samples that cannot be run stay rare")
}

// JRN-040, as the page on durability proves it to a reader: a run that was cut by
// kill -9 is finished by the next daemon.
func TestDurabilityAsShown(t *testing.T) {
	// The search must still be under way when two commands have seen it and the kill
	// comes, also on a busy machine.
	out := asShown(t, "docs/durability.md", "wait $caller", ":movetime-ms 4000", ":movetime-ms 15000")
	assert.Regexp(t, `(?m)^run_\S+ +open `, out)
	assert.Regexp(t, `(?m)^  resumed .* after a crash of its host`, out)
	assert.Contains(t, out, "1 run verified, none damaged")
	assert.Regexp(t, `(?m)^run_\S+: completed$`, out)
}

// RUN-010, as the page on durability proves it to a reader: an act is answered
// before it runs, and followed to its answer.
func TestJobsAsShown(t *testing.T) {
	out := asShown(t, "docs/durability.md", "--class batch")
	assert.Regexp(t, `(?m)^run_\S+: queued; "ferment runs watch run_\S+" follows it$`, out)
	assert.Contains(t, out, `:move "d1d8"`)
}

// JRN-045, as the page on durability proves it to a reader: a question is still open
// after kill -9, and its answer is the answer of the run.
func TestPeopleAsShown(t *testing.T) {
	out := asShown(t, "docs/durability.md", "runs answer last")
	assert.Regexp(t, `(?m)^run_\S+: 0-1-1 is answered$`, out)
	assert.Contains(t, out, "{:approved true}")
}

// RUN-022, as the page on durability proves it to a reader: a batch that was cut by
// kill -9 is continued by the same command.
func TestBatchAsShown(t *testing.T) {
	out := asShown(t, "docs/durability.md", "kill -9 $batch")
	assert.Regexp(t, `(?m)^batch [0-9a-f]{16}: 2000 lines in .*: 2000 accepted, 0 failed; [1-9]\d* executed by an`, out)
}

// SES-014, SES-030, as the page on sessions shows it to a reader: a session is there
// in the next daemon, an act gets its language, and it can be deleted.
func TestSessionsAsShown(t *testing.T) {
	out := asShown(t, "docs/sessions.md", "bin/ferment serve")
	assert.Regexp(t, `(?m)^talk  version 1  hot  owner uid/`, out)
	assert.Regexp(t, `(?m)^talk +warm +3 +uid/`, out)
	assert.Contains(t, out, `:move "d1d8"`)
	assert.Contains(t, out, ":language :pl\n")
	assert.Regexp(t, `(?m)^session/context-summary = "a game"  until `, out)
	assert.Regexp(t, `(?m)^talk  version 4  deleted `, out)
}

// RUN-032, RUN-033, as the page on the cache shows it to a reader: an equal act gets the
// answer of the first one, and --no-cache executes it.
func TestCacheAsShown(t *testing.T) {
	out := asShown(t, "docs/cache.md", "bin/ferment serve")
	assert.Equal(t, 3, strings.Count(out, `:move "d1d8"`), out)
	assert.Equal(t, 1, strings.Count(out, "from the cache"), out)
	assert.Regexp(t, `(?m)^run_\S+: replayed, equal: \d+ records$`, out)
	assert.Regexp(t, `(?m)^  cache +1 hit, 2 miss$`, out)
}

// LRN-001, LRN-003, LRN-005, as the page on learned dispatch shows it to a reader: five
// calls keep the declared order, then the better candidate comes first.
func TestLearnedAsShown(t *testing.T) {
	out := asShown(t, "docs/learned.md", "bin/ferment serve")
	assert.Regexp(t, `(?m)^  decisions +25 at random, 5 in the declared order$`, out)
	assert.Regexp(t, `(?m)^t/good v1 +30 `, out)
	assert.Contains(t, out, "dispatch/priors-reset")
}

// AUTH-001, AUTH-003, AUTH-031, as the page on access shows it to a reader: a daemon
// without users, a token that may only act, and its end with its user.
func TestAccessAsShown(t *testing.T) {
	out := onFreePort(t, "docs/access.md", "7181")
	assert.Equal(t, 1, strings.Count(out, `"auth/not-configured"`), out)
	assert.Regexp(t, `(?m)^root \(user/1\): added$`, out)
	assert.Contains(t, out, `"login":"robot"`)
	assert.Equal(t, 1, strings.Count(out, `"auth/forbidden"`), out)
	assert.Regexp(t, `(?m)^[a-z0-9]{8} +robot +\S+Z +operations http\.v1/act`, out)
	assert.Equal(t, 1, strings.Count(out, `"auth/unauthorized"`), out)
}

// RUN-022, RUN-041, HTTP-006, HTTP-011, as the page on HTTP shows it to an author of a
// client: an answer that is given again for its key, the events of a run and those after
// a cursor, a job, a page of runs, and an error.
func TestHTTPAsShown(t *testing.T) {
	out := onFreePort(t, "docs/http.md", "7183")
	assert.Regexp(t, `(?m)^\{.*"out":\{"text":"Hello, Ada"\}`, out)
	assert.Regexp(t, `(?im)^Idempotency-Replayed: true`, out)
	assert.Regexp(t, `(?m)^event: accepted$`, out)
	assert.Equal(t, 2, strings.Count(out, "event: finished\n"), out)
	assert.Equal(t, 1, strings.Count(out, "event: started\n"), "the cursor leaves it out")
	assert.Regexp(t, `(?m)^\{"more\?":true,"next":"[\w-]+","runs":\[`, out)
	assert.Regexp(t, `(?m)^\{:last 1 .*:kind :run/accepted`, out)
	assert.Regexp(t, `(?m)^\{"error":\{.*"type":"invalid-request"`, out)
}

// TEL-002, TEL-003, as the page on telemetry shows it to an operator: one act is one in the
// metrics and in the statistics, and the audit trail has who did what.
func TestTelemetryAsShown(t *testing.T) {
	out := onFreePort(t, "docs/telemetry.md", "7182")
	assert.Contains(t, out, `ferment_acts_total{intent="chess/best-move",status="completed"} 1`+"\n")
	assert.Regexp(t, `(?m)^chess/best-move +1 +1 `, out)
	assert.Regexp(t, `(?m)^plugin +debug$`, out)
	for _, action := range []string{"act/finished", "admin/create-user", "admin/token-create", "admin/log-level"} {
		assert.Regexp(t, `(?m)^\d+ \S+ \S+ uid/\d+ +`+action+` +ok `, out)
	}
}

// WS-027, WS-140, as the README shows it, on a copy of this repository: the scan has every file, each file and
// directory of the examples gets a frame, the frame of a directory lists its entries, that of a Go file has its outline,
// and the report counts them all.
func TestWorkspaceAsShown(t *testing.T) {
	r := newReader(t)
	files := r.repository(t)
	examples := map[string]bool{}
	for _, file := range files {
		for at := file; strings.HasPrefix(at, "examples"); at = path.Dir(at) {
			examples[at] = true
		}
	}
	out, err := r.shell(t, r.dir, shownBlock(t, "../README.md", "bin/ferment workspace scan"))
	require.NoError(t, err, out)
	figure := func(pattern string) int {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(out)
		require.Len(t, found, 2, out)
		n, err := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
		require.NoError(t, err)
		return n
	}
	assert.Greater(t, figure(`(?m)^scanned ([\d,]+) nodes: `), len(files))
	assert.Equal(t, len(examples), figure(`(?m)^made ([\d,]+) frames .*, failed 0$`))
	assert.Regexp(t, `(?m)^    dir wordcount/ \(context-writer, \d+ bytes\): \d+ entries described`, out)
	assert.Equal(t, len(examples), figure(`(?m)^context-writer +fresh ([\d,]+)$`))
	assert.Regexp(t, `(?m)^context-writer +writer \d+ +\d+ +dir file +\d*[.1-9]`, out)
	out, err = r.shell(t, r.dir, "bin/ferment context get-node examples/quality/main.go")
	require.NoError(t, err, out)
	assert.Regexp(t, `(?m)^    Go package main, \d+ lines`, out)
}

// repository adds the files of this repository that git knows, and returns their names.
func (r *reader) repository(t *testing.T) (files []string) {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	listed, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	require.NoError(t, err)
	files = strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00")
	for _, name := range files {
		to := filepath.Join(r.dir, name)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, content, 0o644))
	}
	return files
}

// onFreePort runs the commands of a page that start a daemon, with another port.
func onFreePort(t *testing.T, page, port string) (output string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, free, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	r := newReader(t)
	out, err := r.shell(t, r.dir, strings.ReplaceAll(shownBlock(t, page, "bin/ferment serve"), port, free))
	require.NoError(t, err, out)
	return out
}

// shownBlock returns the commands of a page that contain a text.
func shownBlock(t *testing.T, page, text string) (lines string) {
	for _, f := range fencesOf(t, page) {
		if f.language == "sh" && strings.Contains(f.text, text) {
			lines = f.text
		}
	}
	require.NotEmpty(t, lines)
	return lines
}

// asShown runs the commands of a page that contain a text, with replaced texts in
// pairs, each of which the commands contain.
func asShown(t *testing.T, page, text string, replaced ...string) (output string) {
	r := newReader(t)
	lines := shownBlock(t, page, text)
	for i := 0; i < len(replaced); i += 2 {
		require.Contains(t, lines, replaced[i])
		lines = strings.ReplaceAll(lines, replaced[i], replaced[i+1])
	}
	config, err := os.ReadFile(filepath.Join(r.dir, "ferment.hcl"))
	require.NoError(t, err)
	config = append(config, "http {\n  listen = [\"127.0.0.1:0\"]\n}\n"...)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "ferment.hcl"), config, 0o644))
	out, err := r.shell(t, r.dir, lines)
	require.NoError(t, err, out)
	return out
}
