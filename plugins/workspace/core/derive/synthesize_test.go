package derive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/derive/policy"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-090, WS-091, WS-092, WS-094, WS-100: the frame of a directory is made of the
// heads of its entries; an equal one is not made again.
func TestSynthesize(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a.go": "1", "d/b.go": "2", "d/c.go": "3"})
	w.note("d/a.go", "note", "about a")
	w.note("d/b.go", "note", "about b\nmore")
	w.note("d/c.go", "other", "about c")
	byName := func(r *SynthesizeRequest) { r.Order = policy.OrderName }
	out := w.synthesize("d", "note", byName)
	assert.Equal(t, 2, out.Inputs)
	assert.False(t, out.Existing)
	text, state := w.text("d", "note")
	is(t, "about a\nabout b\nmore\n|fresh", text, state)
	assert.Equal(t, store.Synthesized, out.Frame.Origin)
	assert.Equal(t, `{:agent/id "synthesis" :basis/id "`+out.Frame.Basis.String()+`" :child-frames 2 :policy :concatenate}`, out.Frame.Meta.String()) // WS-099
	again := w.synthesize("d", "note", byName)
	assert.True(t, again.Existing)
	assert.Equal(t, []any{out.Seq, out.Frame.ID}, []any{again.Seq, again.Frame.ID}, "nothing is committed")

	for edns, want := range map[string]string{
		`:concatenate`: "about a\nabout b\nmore\n",
		`{:kind :concatenate :separator "--" :heading :path}`: "# d/a.go\nabout a--# d/b.go\nabout b\nmore--",
		`:summarize`:                                 "2 entries described: 0 directories, 2 files; 19 bytes in 2 frames.\nfile a.go (note, 7 bytes): about a\nfile b.go (note, 12 bytes): about b\n",
		`{:kind :filter :name "b*"}`:                 "about b\nmore\n",
		`{:kind :filter :agents #{"reader"}}`:        "",
		`{:kind :filter :min-bytes 8 :max-frames 1}`: "about b\nmore\n",
		`{:kind :filter :max-bytes 8}`:               "about a\n",
		`{:kind :filter :types #{"note"} :origins #{:authored} :fresh-only? true}`: "about a\nabout b\nmore\n",
	} {
		out := w.synthesize("d", "note", byName, func(r *SynthesizeRequest) { r.Policy = edn.MustRead(edns) })
		text, _ := w.text("d", "note")
		assert.Equal(t, want, text, edns)
		assert.Equal(t, 2, out.Inputs, "the basis has what the policy was given")
	}
	for _, bad := range []string{
		`{:kind :other}`, `{:separator 1}`, `{:kind :summarize :separator ""}`, `{:kind :filter :min-bytes -1}`, `{:kind :filter :name "["}`, `{:kind :custom}`,
		`{:kind :custom :intent :context/generate}`, `{:kind :custom :intent :context/batch}`, `{:kind :custom :intent :x/y :synthesizer "z"}`, `{:kind :custom :synthesizer "z"}`, `7`, `{:kind :filter :types 1}`,
	} {
		_, err := w.Synthesize(background, SynthesizeRequest{Caller: synthesis, Path: "d", Type: "note", Policy: edn.MustRead(bad)})
		typed(t, err, "input/invalid")
		path, ok := contract.AsError(err).Details.Key("path").Nth(0)
		assert.True(t, ok && path.Equal(edn.K("policy")), bad)
	}
	for typ, change := range map[string]func(*SynthesizeRequest){
		"synthesis/not-directory": func(r *SynthesizeRequest) { r.Path = "d/a.go" },
		"path/not-in-tree":        func(r *SynthesizeRequest) { r.Path = "none" },
		"frame/type-invalid":      func(r *SynthesizeRequest) { r.Type = "a b" },
		"input/invalid":           func(r *SynthesizeRequest) { r.Children = "none" },
		"agent/role-denied":       func(r *SynthesizeRequest) { r.Caller = writer },
		"agent/required":          func(r *SynthesizeRequest) { r.Caller = Caller{} },
	} {
		r := SynthesizeRequest{Caller: synthesis, Path: "d", Type: "note"}
		change(&r)
		_, err := w.Synthesize(background, r)
		typed(t, err, typ)
	}
}

// WS-091: the text has the order of node ids unless it is ordered by name, and
// the basis has it always.
func TestOrderOfChildFrames(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("f%02d", i)] = fmt.Sprint(i)
	}
	w := newWorld(t, files)
	for path := range files {
		w.note(path, "note", path)
	}
	node := w.synthesize("", "note")
	text, _ := w.text("", "note")
	nodes := storetest.Grow(id.B3, files)
	lines := strings.Fields(text)
	require.Len(t, lines, 12)
	for i := range lines[1:] {
		assert.Negative(t, nodes.Lookup(lines[i]).ID.Compare(nodes.Lookup(lines[i+1]).ID))
	}
	name := w.synthesize("", "note", func(r *SynthesizeRequest) { r.Order = policy.OrderName })
	text, _ = w.text("", "note")
	assert.IsIncreasing(t, strings.Fields(text))
	for i, in := range node.Frame.Inputs {
		if in.Kind == "frame" {
			assert.Equal(t, in, name.Frame.Inputs[i])
		}
	}
}

// WS-093: equal child frames and policies give equal frames, in whatever order
// they were put, on another machine.
func TestSynthesisDoesNotDependOnOrder(t *testing.T) {
	files := map[string]string{"a": "1", "b": "2", "d/c": "3", "d/e": "4"}
	var ids []string
	for seed := range 6 {
		w := newWorld(t, files)
		paths := []string{"a", "b", "d/c", "d/e"}
		rand.New(rand.NewPCG(uint64(seed), 93)).Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		for _, p := range paths {
			w.note(p, "note", "about "+p)
		}
		ids = append(ids, w.synthesize("", "note", build).Frame.ID.String())
		assert.Equal(t, ids[0], ids[seed])
	}
	w := newWorld(t, files)
	for _, p := range []string{"a", "b", "d/c", "d/e"} {
		w.note(p, "note", "about "+p)
	}
	w.note("d/c", "note", "another")
	assert.NotEqual(t, ids[0], w.synthesize("", "note", build).Frame.ID.String())
}

// WS-090: nothing is read but the frames of direct entries: damage of the frames
// of a parent, a sibling and a grandchild is not noticed, that of a child is.
func TestOnlyDirectEntriesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		want string
	}{
		"parent": {"", ""}, "sibling": {"e", ""}, "grandchild": {"d/x/y", ""}, "itself": {"d", ""},
		"child": {"d/a", "store/corrupt"}, "directory": {"d/x", "store/corrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"d/a": "1", "d/x/y": "2", "e": "3"})
			for _, p := range []string{"", "d", "d/a", "d/x", "d/x/y", "e"} {
				w.note(p, "note", "SECRET of ["+p+"]")
			}
			segment := filepath.Join(w.dir, "log", "00000001.seg")
			b, err := os.ReadFile(segment)
			require.NoError(t, err)
			mark := "SECRET of [" + c.path + "]"
			require.Equal(t, 1, strings.Count(string(b), mark))
			require.NoError(t, os.WriteFile(segment, []byte(strings.Replace(string(b), mark, strings.ToLower(mark), 1)), 0o600))
			_, err = w.Synthesize(background, SynthesizeRequest{Caller: synthesis, Path: "d", Type: "note"})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				typed(t, err, c.want)
			}
		})
	}
}

// WS-096: every type of each entry; a directory that has the result is
// represented by it alone, so nothing is counted twice. All frames can be taken,
// not only heads.
func TestEveryType(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "b": "2"})
	w.note("d/a", "x", "first")
	w.note("d/a", "x", "dax")
	w.note("d/a", "y", "day")
	w.note("d", "x", "own")
	w.note("b", "x", "bx")
	every := func(r *SynthesizeRequest) { r.Order = policy.OrderName }
	d := w.synthesize("d", "*", every)
	assert.Equal(t, "all", d.Frame.Type)
	is(t, "dax\nday\n|fresh", first(w.text("d", "all")), "fresh")
	w.synthesize("", "*", every)
	is(t, "bx\ndax\nday\n\n|fresh", first(w.text("", "all")), "fresh")
	into := w.synthesize("", "*", every, func(r *SynthesizeRequest) { r.Into = "whole" })
	assert.Equal(t, 3, into.Inputs, "b x, d x, d all: those of d are not represented by one")
	all := w.synthesize("d", "x", every, func(r *SynthesizeRequest) { r.Select = store.SelectAll })
	assert.Equal(t, 2, all.Inputs)
	_, err := w.Synthesize(background, SynthesizeRequest{Caller: synthesis, Path: "d", Type: "x", Into: "y"})
	typed(t, err, "input/invalid")
}

func first[A, B any](a A, _ B) A { return a }

// WS-097: a directory that is not ready is an error that names it, is made first,
// or is left out. WS-098: without any child frame the text is empty.
func TestChildren(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "1", "d/e/f": "2", "g/h": "3"})
	empty := w.synthesize("", "note")
	assert.Equal(t, []any{0, 0}, []any{empty.Inputs, empty.Frame.Bytes})
	assert.Equal(t, empty.Frame.ID, w.synthesize("", "note").Frame.ID)
	w.note("a", "note", "a")
	w.note("d/e/f", "note", "f")
	_, err := w.Synthesize(background, SynthesizeRequest{Caller: synthesis, Type: "note"})
	typed(t, err, "synthesis/child-not-ready")
	assert.Equal(t, `["d"]`, contract.AsError(err).Details.Key("paths").String())
	skipped := w.synthesize("", "note", func(r *SynthesizeRequest) { r.Children = store.ChildrenSkip })
	assert.Equal(t, 1, skipped.Inputs)
	built := w.synthesize("", "note", build)
	assert.Equal(t, []int{2, 2, 0}, []int{built.Inputs, built.Built, built.Reused}, "d and d/e; g has no frames")
	w.edit("d/e/f", "changed")
	w.note("d/e/f", "note", "f again")
	rebuilt := w.synthesize("", "note", build)
	assert.Equal(t, []int{2, 2, 0}, []int{rebuilt.Inputs, rebuilt.Built, rebuilt.Reused})
	is(t, "f again\n\n|fresh", first(w.text("d", "note")), "fresh")
	assert.True(t, w.synthesize("", "note", build).Existing)
}

// WS-098: a stale head of a file is used and counted, left out, or an error.
func TestStaleChildren(t *testing.T) {
	w := newWorld(t, map[string]string{"d/a": "1", "d/b": "1"})
	w.note("d/a", "note", "a")
	w.note("d/b", "note", "b")
	w.edit("d/a", "2")
	stale := func(what store.Word) func(*SynthesizeRequest) {
		return func(r *SynthesizeRequest) { r.OnStale = what }
	}
	used := w.synthesize("d", "note", stale(store.StaleUse))
	assert.Equal(t, []int{2, 1}, []int{used.Inputs, used.StaleInputs})
	excluded := w.synthesize("d", "note", stale(store.StaleExclude))
	assert.Equal(t, []int{1, 0}, []int{excluded.Inputs, excluded.StaleInputs})
	_, err := w.Synthesize(background, SynthesizeRequest{Caller: synthesis, Path: "d", Type: "note", OnStale: store.StaleFail})
	typed(t, err, "synthesis/child-not-ready")
}

// WS-099: a text that is too large is an error, or is cut between frames.
func TestLargeSynthesis(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "1", "b": "1", "c": "1"})
	w.settings.MaxFrame = 100
	for _, p := range []string{"a", "b", "c"} {
		w.note(p, "note", strings.Repeat(p, 40))
	}
	r := SynthesizeRequest{Caller: synthesis, Type: "note", Order: policy.OrderName}
	_, err := w.Synthesize(background, r)
	typed(t, err, "synthesis/too-large")
	r.Truncate = true
	out, err := w.Synthesize(background, r)
	require.NoError(t, err)
	assert.Equal(t, "1", out.Frame.Meta.Key("omitted").String())
	is(t, strings.Repeat("a", 40)+"\n"+strings.Repeat("b", 40)+"\n|fresh", first(w.text("", "note")), "fresh")
}

// WS-095: a custom policy calls an intent or a registered function. One that is
// not deterministic has a sample in its id.
func TestCustomPolicies(t *testing.T) {
	version := "1"
	w := newWorld(t, map[string]string{"a": "1"}, func(w *world, o *Options) {
		o.Synthesizers = []policy.Synthesizer{{Name: "count", Version: version, Run: func(frames []policy.Frame, params edn.Value) (string, error) {
			return fmt.Sprint(len(frames), params), nil
		}}}
	})
	w.note("a", "note", "text")
	custom := func(policy string) func(*SynthesizeRequest) {
		return func(r *SynthesizeRequest) { r.Policy = edn.MustRead(policy) }
	}
	w.synthesize("", "note", custom(`{:kind :custom :synthesizer "count" :params {:x 1}}`))
	is(t, "1 {:x 1}|fresh", first(w.text("", "note")), "fresh")
	n := 0
	w.model = func(_ context.Context, c Call) (*Answer, error) {
		n++
		assert.Equal(t, "team/merge", c.Intent)
		assert.Equal(t, `"text"`, c.Input.Key("frames").MapValues(func(v edn.Value) edn.Value { return v }).String()[strings.Index(c.Input.Key("frames").String(), `"text"`):][:6])
		return &Answer{Out: edn.MustMap(edn.K("text"), edn.Text(fmt.Sprint("merged ", n)))}, nil
	}
	assert.Zero(t, w.synthesize("", "none", custom(`{:kind :custom :intent :team/merge}`)).Frame.Bytes) // WS-098
	assert.Zero(t, n, "there is nothing to merge")
	loose := w.synthesize("", "note", custom(`{:kind :custom :intent :team/merge}`))
	assert.True(t, loose.Frame.Sampled)
	assert.True(t, w.synthesize("", "note", custom(`{:kind :custom :intent :team/merge}`)).Existing)
	forced := w.synthesize("", "note", custom(`{:kind :custom :intent :team/merge}`), func(r *SynthesizeRequest) { r.Force = true })
	assert.Equal(t, []any{uint64(1), loose.Frame.Basis}, []any{forced.Frame.Sample, forced.Frame.Basis})
	strict := custom(`{:kind :custom :intent :team/merge :deterministic? true}`)
	w.synthesize("", "note", strict)
	r := SynthesizeRequest{Caller: synthesis, Type: "note", Force: true}
	strict(&r)
	_, err := w.Synthesize(background, r)
	typed(t, err, "synthesis/nondeterministic") // WS-117
	w.model = func(context.Context, Call) (*Answer, error) {
		return nil, contract.Errorf("runtime/crashed", "it died")
	}
	_, err = w.Synthesize(background, r)
	typed(t, err, "synthesis/custom-failed")
	assert.True(t, contract.AsError(err).Retryable)
	assert.Equal(t, "runtime/crashed", contract.AsError(err).Cause.Type)
}

// WS-092: another version of a synthesizer makes its frames stale.
func TestVersionOfASynthesizer(t *testing.T) {
	w := newWorld(t, map[string]string{"a": "1"})
	w.note("a", "note", "text")
	o := w.o
	with := func(version string) {
		o.Synthesizers = []policy.Synthesizer{{Name: "v", Version: version, Run: func([]policy.Frame, edn.Value) (string, error) { return version, nil }}}
		w.Engine = New(o)
	}
	with("1")
	w.synthesize("", "note", func(r *SynthesizeRequest) { r.Policy = edn.MustRead(`{:kind :custom :synthesizer "v"}`) })
	is(t, "1|fresh", first(w.text("", "note")), "fresh")
	with("2")
	_, state := w.text("", "note")
	assert.Equal(t, "stale", state)
	out := w.regenerate("")
	require.Len(t, out.Items, 1)
	assert.Equal(t, RecipeChanged, out.Items[0].Reason)
	text, state := w.text("", "note")
	is(t, "2|fresh", text, state)
}
