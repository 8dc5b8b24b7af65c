package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// words formats a result: "pass a/b, fail c".
func words(tests []Test) string {
	var all []string
	for _, t := range tests {
		name := t.Name
		if t.Package != "" {
			name = t.Package + "/" + name
		}
		all = append(all, string(t.Status)+" "+name)
	}
	return strings.Join(all, ", ")
}

func readTAP(text string, exit int) Result {
	r := newTAPReader()
	for line := range strings.Lines(text) {
		r.line(strings.TrimSuffix(line, "\n"))
	}
	result := Result{Exit: exit, Ended: fmt.Sprintf("exit %d", exit)}
	r.fill(&result, "x")
	result.judge(time.Second, r.outOfMemory())
	result.limit()
	return result
}

// TAP 12 to 14: points, directives, plans, subtests, details, bail out.
func TestTAP(t *testing.T) {
	tests := []struct {
		name, text, want string
		ok               bool
	}{
		{"plain", "TAP version 13\n1..2\nok 1 - a\nok 2 - b\n", "pass a, pass b", true},
		{"plan at the end", "ok 1 a\nok 2\n1..2\n", "pass a, pass test 2", true},
		{"no number", "1..2\nok\nnot ok - b\n", "pass test, fail b", false},
		{"failure", "1..2\nok 1 - a\nnot ok 2 - b\n", "pass a, fail b", false},
		{"skip", "1..2\nok 1 - a # SKIP no time\nok 2 - b\n", "skip a, pass b", true},
		{"skip in any case", "1..1\nok 1 a # skipped: no time\n", "skip a", false},
		{"to do that fails", "1..2\nnot ok 1 - a # TODO later\nok 2 - b\n", "skip a, pass b", true},
		{"to do that passes", "1..1\nok 1 - a # TODO later\n", "pass a", true},
		{"escaped hash", "1..1\nnot ok 1 - a \\# SKIP this is no directive\n", "fail a # SKIP this is no directive", false},
		{"everything skipped", "1..0 # SKIP no database\n", "", false},
		{"fewer than planned", "1..3\nok 1\n", "pass test 1, fail (plan)", false},
		{"more than planned", "1..1\nok 1\nok 2\n", "pass test 1, pass test 2, fail (plan)", false},
		{"no plan", "TAP version 14\nok 1 - a\n", "pass a, fail (plan)", false},
		{"two plans", "1..1\nok 1 - a\n1..1\n", "pass a, fail (plan)", false},
		{"bail out", "1..3\nok 1 - a\nBail out! no disk\nok 2 - b\n", "pass a, fail (bail out)", false},
		{"empty", "", "", false},
		{"no protocol", "hello\nworld\n", "", false},
		{"noise between", "1..1\nhello\nok 1 - a\n   okay\nokay\n", "pass a", true},
		{"subtests", "TAP version 14\n# Subtest: all\n    ok 1 - a\n    not ok 2 - b\n    1..2\nnot ok 1 - all\n1..1\n", "pass all/a, fail all/b", false},
		{"subtests of subtests", "# Subtest: x\n    # Subtest: y\n        ok 1 - a\n        1..1\n    ok 1 - y\n    1..1\nok 1 - x\n1..1\n", "pass x > y/a", true},
		{"a parent that fails alone", "# Subtest: all\n    ok 1 - a\n    1..1\nnot ok 1 - all\n1..1\n", "pass all/a, fail all", false},
		{"subtests that were cut", "# Subtest: all\n    ok 1 - a\n1..0\n", "pass all/a, fail all/(plan)", false},
		{"a plan of subtests that is wrong", "# Subtest: all\n    ok 1 - a\n    1..2\nok 1 - all\n1..1\n", "pass all/a, fail all/(plan)", false},
		{"carriage returns", "1..1\r\nok 1 - a\r\n", "pass a", true},
		{"huge plan", "1..999999999\nok 1\n", "pass test 1, fail (plan)", false},
		{"details that are never closed", "1..2\nnot ok 1 - a\n  ---\n  x: 1\nok 2 - b\n", "fail a, pass b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := readTAP(tt.text, 0)
			assert.Equal(t, tt.want, words(r.Tests))
			assert.Equal(t, tt.ok, r.OK, r.Reason)
			assert.Equal(t, len(r.Tests), r.Passed+r.Failed+r.Skipped)
		})
	}
	r := readTAP("1..1\nnot ok 1 - a\n  ---\n  duration_ms: 12.5\n  message: |-\n    boom\n  ...\n", 1)
	assert.Equal(t, "duration_ms: 12.5\nmessage: |-\n  boom\n", r.Tests[0].Output)
	assert.Equal(t, 12500*time.Microsecond, r.Tests[0].Took)
	assert.Equal(t, "the command ended with exit 1", readTAP("1..1\nok 1\n", 1).Reason, "a plan that holds does not undo an exit")
	assert.Contains(t, readTAP("hello\n", 0).Output, "hello")
}

// A stream without an end costs bounded memory, and omissions are reported.
func TestTAPWithoutEnd(t *testing.T) {
	r := newTAPReader()
	for range maxTracked + 10 {
		r.line("not ok 1 - " + strings.Repeat("x", 300))
		r.line("  ---")
		r.line("  y: " + strings.Repeat("y", 300))
		r.line("  ...")
	}
	for i := range 100 {
		r.line(strings.Repeat("    ", i) + "ok 1 - deep")
	}
	var result Result
	r.fill(&result, "")
	result.judge(time.Second, false)
	result.limit()
	assert.Len(t, result.Tests, maxTests)
	assert.False(t, result.OK)
	size := 0
	for _, x := range result.Tests {
		size += len(x.Output)
	}
	assert.LessOrEqual(t, size, totalSize)
}

const suites = `<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4" time="1,234.5">
<properties><property name="a" value="b"/></properties>
<testcase classname="test_a" name="test_one" time="0.5"/>
<testcase classname="test_a" name="test_two[1-&lt;b&gt;]" time="0.001"><failure message="assert 1 == 2">def test_two():
&gt;   assert 1 == 2</failure></testcase>
<testcase classname="test_a" name="test_three"><skipped type="pytest.skip" message="no time">a.py:3</skipped></testcase>
<testcase name="test_four" time="bad"><error message="fixture"><![CDATA[boom <&>]]></error><system-out>noise</system-out></testcase>
</testsuite></testsuites>
`

// JUnit reports of several tools, and invalid ones.
func TestJUnit(t *testing.T) {
	tests, err := readJUnit(strings.NewReader(suites))
	require.NoError(t, err)
	assert.Equal(t, "pass test_a/test_one, fail test_a/test_two[1-<b>], skip test_a/test_three, fail pytest/test_four", words(tests))
	assert.Equal(t, 500*time.Millisecond, tests[0].Took)
	assert.Equal(t, "assert 1 == 2\ndef test_two():\n>   assert 1 == 2", tests[1].Output)
	assert.Contains(t, tests[3].Output, "boom <&>")

	good := map[string]struct{ text, want string }{
		"one suite":       {`<testsuite name="s"><testcase name="a"/></testsuite>`, "pass s/a"},
		"nested suites":   {`<testsuites><testsuite name="s"><testsuite name="t"><testcase name="a"/></testsuite><testcase name="b"/></testsuite></testsuites>`, "pass t/a, pass s/b"},
		"nested cases":    {`<testsuite name="s"><testcase name="a"><testcase name="b"><failure/></testcase></testcase></testsuite>`, "fail s/a"},
		"skip and fail":   {`<testsuite><testcase name="a"><failure/><skipped/></testcase></testsuite>`, "fail a"},
		"namespaces":      {`<testsuite xmlns="urn:x" name="s"><testcase name="a"/></testsuite>`, "pass s/a"},
		"comments":        {`<!-- <testcase name="x"/> --><testsuite><!-- y --><testcase name="a"/></testsuite>`, "pass a"},
		"what follows":    {`<testsuite><testcase name="a"/></testsuite><testsuite><testcase name="forged"/></testsuite>`, "pass a"},
		"no tests":        {`<testsuites/>`, ""},
		"other encodings": {`<?xml version="1.0" encoding="US-ASCII"?><testsuite><testcase name="a"/></testsuite>`, "pass a"},
	}
	for name, tt := range good {
		t.Run(name, func(t *testing.T) {
			tests, err := readJUnit(strings.NewReader(tt.text))
			require.NoError(t, err)
			assert.Equal(t, tt.want, words(tests))
		})
	}
	bad := map[string]struct{ text, says string }{
		"empty":             {"", "root element is missing or not closed"},
		"cut":               {suites[:len(suites)/2], ""},
		"another root":      {`<html></html>`, "begins with <html>"},
		"entities":          {`<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>`, "document type"},
		"external entity":   {`<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite/>`, "document type"},
		"unknown entity":    {`<testsuite><testcase name="&evil;"/></testsuite>`, "entity"},
		"deep":              {"<testsuite>" + strings.Repeat("<a>", 1000), "deeper than 64"},
		"wrong closer":      {`<testsuite><testcase name="a"></testsuite>`, "no matching start element"},
		"closer first":      {`</testsuite>`, "no matching start element"},
		"encoding":          {`<?xml version="1.0" encoding="UTF-16"?><testsuite/>`, "expected UTF-8"},
		"no UTF-8":          {"<testsuite>\xff\xfe</testsuite>", "UTF-8"},
		"control character": {"<testsuite>\x01</testsuite>", "illegal"},
		"many":              {"<testsuite>" + strings.Repeat(`<testcase name="a"/>`, maxTracked+1), "more than 100000 tests"},
	}
	for name, tt := range bad {
		t.Run(name, func(t *testing.T) {
			_, err := readJUnit(strings.NewReader(tt.text))
			require.Error(t, err)
			assert.Contains(t, err.Error(), tt.says)
		})
	}
}

// Sources of a report: a file takes precedence over standard output; text that
// is not a report is output; an invalid report is a failed test.
func TestJUnitSources(t *testing.T) {
	result := func(r *junitReader) Result {
		var out Result
		r.fill(&out, "")
		out.judge(time.Second, r.outOfMemory())
		return out
	}
	r := &junitReader{}
	_, _ = r.Write([]byte("compiling\n" + suites + "done\n"))
	got := result(r)
	assert.Equal(t, 2, got.Failed)
	assert.Contains(t, got.Output, "compiling")

	dir := t.TempDir()
	path := filepath.Join(dir, "report.xml")
	require.NoError(t, os.WriteFile(path, []byte(`<testsuite name="f"><testcase name="a"/></testsuite>`), 0o600))
	r = &junitReader{path: path}
	_, _ = r.Write([]byte(suites))
	got = result(r)
	assert.True(t, got.OK)
	assert.Equal(t, "pass f/a", words(got.Tests))

	r = &junitReader{}
	_, _ = r.Write([]byte("nothing\n"))
	got = result(r)
	assert.Equal(t, "no test ran", got.Reason)
	assert.Contains(t, got.Output, "nothing")

	r = &junitReader{}
	_, _ = r.Write([]byte(suites[:300]))
	got = result(r)
	assert.Equal(t, "fail (report)", words(got.Tests[len(got.Tests)-1:]))

	r = &junitReader{}
	big := []byte(strings.Repeat("x", 1<<20))
	for range maxReport>>20 + 2 {
		_, _ = r.Write(big)
	}
	got = result(r)
	assert.Contains(t, got.Tests[0].Output, "more than 33554432 bytes")

	r = &junitReader{path: dir}
	assert.Contains(t, result(r).Tests[0].Output, "not a regular file")
}

func TestDetect(t *testing.T) {
	for _, tt := range []struct {
		command string
		format  Format
		want    string
		is      Format
	}{
		{"pytest -q", "", "pytest -q --junitxml=R", JUnit},
		{"python3 -m pytest", "", "python3 -m pytest --junitxml=R", JUnit},
		{"/usr/bin/python3.12 -m pytest", JUnit, "/usr/bin/python3.12 -m pytest --junitxml=R", JUnit},
		{"pytest", ExitCode, "pytest", ExitCode},
		{"pytest --junitxml=x", "", "pytest --junitxml=x", ExitCode},
		{"python3 -m unittest", "", "python3 -m unittest", ExitCode},
		{"node --test", "", "node --test --test-reporter=tap", TAP},
		{"node --test a.js", JUnit, "node --test --test-reporter=junit a.js", JUnit},
		{"node --test --test-reporter=junit", "", "node --test --test-reporter=junit", JUnit},
		{"node --test --test-reporter=spec", "", "node --test --test-reporter=spec", ExitCode},
		{"node script.js --test", "", "node script.js --test", ExitCode},
		{"cargo test", "", "cargo test", ExitCode},
		{"prove -v", TAP, "prove -v", TAP},
	} {
		command, format := Detect(strings.Fields(tt.command), tt.format, "R")
		assert.Equal(t, tt.want, strings.Join(command, " "))
		assert.Equal(t, tt.is, format, tt.command)
	}
}

func FuzzTAP(f *testing.F) {
	f.Add("TAP version 14\n# Subtest: a\n    ok 1 - b # SKIP x\n    1..1\nnot ok 1 - a\n  ---\n  duration_ms: 1\n  ...\n1..1\n")
	f.Add("Bail out!\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		r := readTAP(text, 0)
		require.Equal(t, len(r.Tests)+r.Omitted, r.Passed+r.Failed+r.Skipped)
		if r.OK {
			require.Zero(t, r.Failed)
			require.Positive(t, r.Passed)
		}
	})
}

func FuzzJUnit(f *testing.F) {
	f.Add(suites)
	f.Add(`<testsuite><testcase name="a"><failure/></testcase></testsuite>`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		tests, _ := readJUnit(strings.NewReader(text))
		for _, x := range tests {
			require.Contains(t, []Status{Pass, Fail, Skip}, x.Status)
		}
	})
}
