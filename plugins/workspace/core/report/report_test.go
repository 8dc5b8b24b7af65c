package report

import (
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func collect(t testing.TB, w *storetest.World) *Facts { return collectPart(t, w, "") }

func collectPart(t testing.TB, w *storetest.World, part string) (f *Facts) {
	t.Helper()
	w.Read(func(s *store.Snapshot) (err error) {
		f, err = Collect(background, s, part)
		return err
	})
	return f
}

// example is a workspace with frames in all states but invalid.
func example(t testing.TB, now int64) *storetest.World {
	w := storetest.Open(t, id.B3)
	w.Now = now
	files := map[string]string{"src/a.go": "package a", "src/b.go": "package b", "docs/read|me.md": "text", "x": "", "old/gone": "1"}
	w.Tree(files)
	by := func(agent string, origin store.Origin, meta string) func(*store.NewFrame) {
		return func(n *store.NewFrame) { n.Agent, n.Origin, n.Meta = agent, origin, edn.MustRead(meta) }
	}
	w.Put("old/gone", "note", "gone")
	w.Put("src/b.go", "note", "about b")
	delete(files, "old/gone")
	files["src/b.go"] = "package c"
	w.Tree(files)
	w.Put("src/a.go", "note", "about a")
	w.Put("src/a.go", "facts", "3 lines", by("writer", store.Extracted, `{}`))
	w.Put("src", "digest", "of src", by("synthesis", store.Synthesized, `{}`))
	w.Put("docs", "digest", "of docs", by("docs", store.Synthesized, `{}`))
	used := `{:cap/id :openai/voice :provider {:name "openai" :model "m|1"} :usage {:tokens-in 100 :tokens-out 7 :cost-usd 0.0015M}}`
	w.Put("x", "context-docs", "model text", by("docs", store.Generated, used))
	w.Put("src/a.go", "context-docs", "more", by("docs", store.Generated, used))
	w.Put("src/b.go", "context-docs", "local", by("docs", store.Generated, `{:cap/id :ollama/voice :provider {:name "ollama" :model "llama"} :usage {:tokens-in 3}}`))
	return w
}

var (
	invalidStore = &Validation{Errors: []Problem{{Code: "store/corrupt", File: "log/1.seg", Message: "byte 3 <is> wrong"}}}
	validStore   = &Validation{Valid: true, Warnings: []Problem{{Code: "agent/unknown", Place: store.PlaceOf("x"), Message: "no agent"}}}
)

// WS-192, WS-194: the sections of a report and its three forms.
func TestReport(t *testing.T) {
	w := example(t, 1)
	conditions, err := ParseFailOn("stale | missing:digest, authored-stale coverage:note<50 coverage:digest<50 inexact invalid missing:none")
	require.NoError(t, err)
	request := Request{FailOn: conditions, Validation: validStore, Inexact: []Inexact{{"src/a.go", "text"}}}
	r, err := New(collect(t, w), request)
	require.NoError(t, err)
	v, err := edn.Encode(r)
	require.NoError(t, err)
	golden(t, "report.edn", string(edn.WritePretty(v, edn.PrettyOptions{}))+"\n")
	golden(t, "report.md", r.Markdown())
	golden(t, "report.xml", r.JUnit())
	var suite junitSuite
	require.NoError(t, xml.Unmarshal([]byte(r.JUnit()), &suite))
	assert.Len(t, suite.Cases, suite.Tests)

	again, err := New(collect(t, w), request)
	require.NoError(t, err)
	assert.Equal(t, []string{v.String(), r.Markdown(), r.JUnit()}, []string{value(t, again), again.Markdown(), again.JUnit()})
	// A store with the same state, made at another place and time, has the same
	// report.
	other := example(t, 99)
	same, err := New(collect(t, other), request)
	require.NoError(t, err)
	assert.Equal(t, v.String(), value(t, same))

	broken, err := New(collect(t, w), Request{Sections: []string{"validation"}, Validation: invalidStore, FailOn: conditions[6:7]})
	require.NoError(t, err)
	assert.True(t, broken.FailOn.Met)
	golden(t, "broken.xml", broken.JUnit())
	golden(t, "broken.md", broken.Markdown())
	few, err := New(collect(t, w), Request{Sections: []string{"states"}})
	require.NoError(t, err)
	assert.Equal(t, []bool{true, true, true, true}, []bool{few.Coverage == nil, few.Models == nil, few.FailOn == nil, few.States != nil})
	_, err = New(collect(t, w), Request{FailOn: conditions[6:7]})
	require.ErrorIs(t, err, contract.OfType("runtime/internal"), "what was not validated is not valid")
	_, err = New(collect(t, storetest.Open(t, id.B3)), Request{})
	require.ErrorIs(t, err, contract.OfType("workspace/unscanned"))
}

// A report of a part counts what is at or below its path, and nothing else: paths,
// heads, models, directories, conditions, and reasons why ids differ from git's.
func TestReportOfPart(t *testing.T) {
	w := example(t, 1)
	conditions, err := ParseFailOn("stale missing:digest inexact")
	require.NoError(t, err)
	request := Request{FailOn: conditions, Inexact: []Inexact{{"src/a.go", "text"}, {"x", "text"}, {"srcs", "text"}}}
	report := func(part string) *Report {
		r, err := New(collectPart(t, w, part), request)
		require.NoError(t, err)
		return r
	}
	src := report("src")
	assert.Equal(t, Counts{"dir": 1, "file": 2}, src.Nodes)
	assert.Equal(t, []Directory{{Place: store.PlaceOf("src"), Bytes: 18, Files: 2, path: "src"}}, src.Directories)
	assert.Equal(t, []int{2, 1}, []int{len(src.Models), len(src.AuthoredStale)})
	assert.Equal(t, []int{1, 0, 1}, []int{src.FailOn.Conditions[0].Count, src.FailOn.Conditions[1].Count, src.FailOn.Conditions[2].Count})
	docs := report("docs")
	assert.Equal(t, []int{0, 0}, []int{len(docs.Models), len(docs.AuthoredStale)})
	assert.False(t, docs.FailOn.Met)
	assert.Equal(t, value(t, report("")), value(t, func() *Report {
		r, err := New(collect(t, w), request)
		require.NoError(t, err)
		return r
	}()))
	one := report("src/b.go")
	assert.Equal(t, Counts{"dir": 0, "file": 1}, one.Nodes)
	assert.Empty(t, one.Directories)
	assert.Equal(t, "stale", one.FailOn.Conditions[0].Condition)
	assert.True(t, one.FailOn.Conditions[0].Met)
	for path, typ := range map[string]string{"none": "path/not-in-tree", "old/gone": "node/deleted"} {
		w.Read(func(s *store.Snapshot) error {
			_, err := Collect(background, s, path)
			require.ErrorIs(t, err, contract.OfType(typ), path)
			return nil
		})
	}
}

func TestSections(t *testing.T) {
	list, err := ParseSections(edn.MustRead(`[:coverage :validation]`))
	require.NoError(t, err)
	assert.Equal(t, []string{"coverage", "validation"}, list)
	for _, bad := range []string{`[:cover]`, `:coverage`, `["x"]`} {
		_, err := ParseSections(edn.MustRead(bad))
		require.ErrorIs(t, err, contract.OfType("input/invalid"), bad)
	}
}

// WS-193: each condition is met by exactly what it names.
func TestFailOn(t *testing.T) {
	w := example(t, 1)
	facts := collect(t, w)
	for text, want := range map[string]bool{
		"stale":                 true,
		"authored-stale":        true,
		"missing:digest":        true,
		"missing:none":          true,
		"coverage:digest<66.6":  false, // 2 of 3
		"coverage:digest<66.7":  true,
		"coverage:none<1":       true,
		"coverage:none<0":       true, // there is not even one
		"coverage:note<100":     true,
		"inexact":               false,
		"invalid":               false,
		"inexact|invalid,stale": true,
	} {
		list, err := ParseFailOn(text)
		require.NoError(t, err, text)
		r, err := New(facts, Request{FailOn: list, Validation: validStore})
		require.NoError(t, err)
		assert.Equal(t, want, r.FailOn.Met, text)
	}
	w.Put("src/b.go", "note", "about c")
	fresh := collect(t, w)
	for text, want := range map[string]bool{"stale": false, "authored-stale": false} {
		list, err := ParseFailOn(text)
		require.NoError(t, err)
		r, err := New(fresh, Request{FailOn: list})
		require.NoError(t, err)
		assert.Equal(t, want, r.FailOn.Met, text)
	}
	for _, bad := range []string{"", " | ", "fresh", "missing:", "missing:a b c", "coverage:x", "coverage:x<", "coverage:x<101", "coverage:x<-1", "coverage:x<1e1", "coverage:x<=5", "stale;invalid"} {
		_, err := ParseFailOn(bad)
		require.ErrorIs(t, err, contract.OfType("input/invalid"), bad)
	}
}

func FuzzParseFailOn(f *testing.F) {
	for _, s := range []string{"stale|missing:a", "coverage:a.b<99.5, inexact", "invalid"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseFailOn(text)
		if err != nil {
			if contract.AsError(err).Type != "input/invalid" {
				t.Error(err)
			}
			return
		}
		again := ""
		for _, c := range list {
			again += c.String() + "|"
		}
		twice, err := ParseFailOn(again)
		if err != nil || len(twice) != len(list) {
			t.Errorf("%q is read as %q, and that as %v: %v", text, again, twice, err)
		}
	})
}

// The status counts nodes, frames and heads, also before the first scan.
func TestStatus(t *testing.T) {
	empty := StatusOf(collect(t, storetest.Open(t, id.B3)), StatusRequest{Breakdown: true})
	assert.Equal(t, `{:frames 0 :heads {} :nodes {:dir 0 :file 0} :scanned? false :top-paths []}`, value(t, empty))
	w := example(t, 1)
	f := collect(t, w)
	s := StatusOf(f, StatusRequest{Breakdown: true, Coverage: true})
	v, err := edn.Encode(s)
	require.NoError(t, err)
	golden(t, "status.edn", string(edn.WritePretty(v, edn.PrettyOptions{}))+"\n")
	w.Read(func(snap *store.Snapshot) error {
		root, err := snap.StateRoot(background)
		assert.Equal(t, root, *s.StateRoot)
		return err
	})
	assert.Nil(t, StatusOf(f, StatusRequest{}).Breakdown)
}

// WS-173, WS-175: a workspace whose root is deleted has a status, a report and a graph.
func TestDeletedRoot(t *testing.T) {
	w := example(t, 1)
	_, err := w.Update(background, "tester", func(tx *store.Tx) error { _, err := tx.Delete(""); return err })
	require.NoError(t, err)
	f := collect(t, w)
	assert.Empty(t, f.Paths)
	heads := len(f.Gone)
	assert.Positive(t, heads)
	assert.Equal(t, Counts{"deleted": heads}, StatusOf(f, StatusRequest{Breakdown: true, Coverage: true}).Heads)
	r, err := New(f, Request{})
	require.NoError(t, err)
	assert.NotEmpty(t, r.Markdown())
	assert.NotPanics(t, func() { graphOf(f) })
	w.Read(func(s *store.Snapshot) error {
		_, err := Collect(background, s, "src")
		require.ErrorIs(t, err, contract.OfType("node/deleted"), "a part of it is still refused")
		return nil
	})
}

// WS-118, WS-193: marked heads are counted, listed by differences, drawn, and meet the
// conditions stale and invalid; deleted paths miss nothing.
func TestMarkedAndDeleted(t *testing.T) {
	w := example(t, 1)
	before := seqOf(t, w)
	_, err := w.Update(background, "tester", func(tx *store.Tx) error {
		_, err := tx.Invalidate("docs", true, nil)
		if err == nil {
			_, err = tx.Delete("x")
		}
		return err
	})
	require.NoError(t, err)
	d := difference(t, w, before, store.Latest, DiffRequest{})
	assert.Equal(t, `{:deleted [["x" "context-docs"]] :invalidated [["docs" "digest"]]}`, value(t, d.Frames))
	back := difference(t, w, store.Latest, before, DiffRequest{})
	assert.Equal(t, `{:refreshed [["docs" "digest"] ["x" "context-docs"]]}`, value(t, back.Frames))
	f := collect(t, w)
	assert.Equal(t, Counts{"deleted": 2, "fresh": 5, "invalid": 1, "stale": 1}, StatusOf(f, StatusRequest{}).Heads)
	list, err := ParseFailOn("stale coverage:context-docs<67")
	require.NoError(t, err)
	r, err := New(f, Request{FailOn: list})
	require.NoError(t, err)
	assert.Equal(t, 2, r.FailOn.Conditions[0].Count)
	assert.InDelta(t, 66.7, *r.FailOn.Conditions[1].Percent, 0)
	assert.Contains(t, graphOf(f).States[0], "3")
	list, err = ParseFailOn("invalid")
	require.NoError(t, err)
	for v, count := range map[*Validation]int{validStore: 1, invalidStore: 2} {
		r, err = New(f, Request{FailOn: list, Validation: v})
		require.NoError(t, err)
		assert.Equal(t, []any{true, count}, []any{r.FailOn.Met, r.FailOn.Conditions[0].Count})
		assert.Equal(t, []store.ShownPath{"docs"}, r.FailOn.Conditions[0].Paths)
		shown := 0
		for _, x := range r.findings {
			if x.about == "docs" {
				shown++
			}
		}
		assert.Equal(t, 1, shown, "a head is one finding")
	}
}
