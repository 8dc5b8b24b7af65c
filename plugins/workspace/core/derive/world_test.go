package derive

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/storetest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) {
	if killed() {
		return
	}
	goleak.VerifyTestMain(m)
}

var background = context.Background()

// world is a workspace in memory with its store on disk.
type world struct {
	t testing.TB
	*Engine
	store    *store.Store
	dir      string
	settings Settings
	agents   []agent.Agent
	reads    atomic.Int64
	onRead   func(path string)
	failRead error // of every read; nil: none

	mu    sync.Mutex
	files map[string]string
	model func(ctx context.Context, c Call) (*Answer, error)
	calls []Call
}

func newWorld(t testing.TB, files map[string]string, change ...func(*world, *Options)) *world {
	t.Helper()
	w := &world{t: t, dir: store.DataDir(t.TempDir()), files: map[string]string{}}
	require.NoError(t, store.Create(w.dir, store.Identity{ID: "w", Scheme: "b3"}))
	now := int64(0)
	s, err := store.Open(background, w.dir, store.Options{Now: func() int64 { return atomic.AddInt64(&now, 1) }, Unsynced: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	w.store = s
	w.model = func(_ context.Context, c Call) (*Answer, error) {
		text, _ := c.Input.Key("text").AsString()
		return &Answer{Out: edn.MustMap(edn.K("text"), edn.Text("about: "+firstData(text)))}, nil
	}
	o := Options{
		Store: s,
		Open: func(path string) (io.ReadCloser, error) {
			w.reads.Add(1)
			if w.onRead != nil {
				w.onRead(path)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			text, ok := w.files[path]
			if w.failRead != nil {
				return nil, w.failRead
			}
			if !ok {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader(text)), nil
		},
		Agents: func() *agent.Set {
			set, err := agent.New(w.agents, func(string) bool { return true })
			require.NoError(t, err)
			return set
		},
		Settings: func() Settings { return w.settings },
		Invoke: func(ctx context.Context, c Call) (*Answer, error) {
			w.mu.Lock()
			w.calls = append(w.calls, c)
			model := w.model
			w.mu.Unlock()
			return model(ctx, c)
		},
		Now: func() int64 { return 0 },
	}
	for _, c := range change {
		c(w, &o)
	}
	w.Engine = New(o)
	w.scan(files)
	return w
}

// patterns are those of a setting.
func patterns(lines ...string) *ignore.List {
	return ignore.Parse("", "", []byte(strings.Join(lines, "\n")))
}

// firstData returns the first line of the first data in a prompt.
func firstData(prompt string) string {
	_, rest, _ := strings.Cut(prompt, ">\n")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// scan makes files the whole tree.
func (w *world) scan(files map[string]string) uint64 {
	w.t.Helper()
	w.mu.Lock()
	w.files = maps.Clone(files)
	w.mu.Unlock()
	t := storetest.Grow(id.B3, files)
	seq, err := w.store.Update(background, "scan", func(tx *store.Tx) error {
		_, err := tx.PutTree(t)
		return err
	})
	require.NoError(w.t, err)
	return seq
}

// edit changes one file and scans.
func (w *world) edit(path, text string) {
	w.t.Helper()
	w.mu.Lock()
	files := maps.Clone(w.files)
	w.mu.Unlock()
	files[path] = text
	w.scan(files)
}

// mark marks heads and returns how many were not marked before.
func (w *world) mark(mark func(*store.Tx) (int, error)) (marked int) {
	w.t.Helper()
	_, err := w.store.Update(background, "tester", func(tx *store.Tx) (err error) {
		marked, err = mark(tx)
		return err
	})
	require.NoError(w.t, err)
	return marked
}

var (
	writer    = Caller{Agent: "writer"}
	synthesis = Caller{Agent: "synthesis", Principal: "tester"}
)

// note puts an authored frame.
func (w *world) note(path, frameType, text string) *store.Frame {
	w.t.Helper()
	var p *store.Put
	_, err := w.store.Update(background, "tester", func(tx *store.Tx) error {
		t, err := tx.Tree()
		if err != nil {
			return err
		}
		p, err = tx.PutFrame(store.NewFrame{
			Path: path, Type: frameType, Agent: "writer", Origin: store.Authored, Text: []byte(text),
			Inputs: []store.Input{{Kind: id.InputNode, ID: t.Lookup(path).ID}},
		})
		return err
	})
	require.NoError(w.t, err)
	return p.Frame
}

// text returns the text of a head with its state.
func (w *world) text(path, frameType string) (text, state string) {
	w.t.Helper()
	err := w.store.View(background, store.Latest, func(v *store.Snapshot) error {
		h, err := v.Head(background, path, frameType)
		if err != nil {
			return err
		}
		b, err := v.Content(background, h.Frame.Content)
		text, state = string(b), string(h.State)
		return err
	})
	if err != nil {
		return "", contract.AsError(err).Type
	}
	return text, state
}

func (w *world) head(path, frameType string) *store.Frame {
	w.t.Helper()
	var f *store.Frame
	require.NoError(w.t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
		h, err := v.Head(background, path, frameType)
		if err == nil {
			f = h.Frame
		}
		return err
	}))
	return f
}

// heads returns the frames and states of all heads.
func (w *world) heads() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	require.NoError(w.t, w.store.View(background, store.Latest, func(v *store.Snapshot) error {
		list, err := v.Heads(background, "", nil)
		for _, h := range list {
			all[h.Path+" "+h.Type] = h.Frame.String() + " " + string(h.State)
		}
		return err
	}))
	return all
}

// extracted gives every file a frame by an extractor.
func (w *world) extracted(frameType string) {
	w.t.Helper()
	_, err := w.Generate(background, GenerateRequest{
		Caller: writer, Targets: []Target{{}}, Recursive: true, Type: frameType, Producer: "extract/text", OnFailure: Continue,
	})
	require.NoError(w.t, err)
}

func (w *world) synthesize(path, frameType string, change ...func(*SynthesizeRequest)) *Synthesized {
	w.t.Helper()
	r := SynthesizeRequest{Caller: synthesis, Path: path, Type: frameType}
	for _, c := range change {
		c(&r)
	}
	out, err := w.Synthesize(background, r)
	require.NoError(w.t, err)
	return out
}

func build(r *SynthesizeRequest) { r.Children = store.ChildrenBuild }

func (w *world) regenerate(path string, change ...func(*RegenerateRequest)) *Regenerated {
	w.t.Helper()
	r := RegenerateRequest{Caller: synthesis, Path: path, Recursive: true}
	for _, c := range change {
		c(&r)
	}
	out, err := w.Regenerate(background, r)
	require.NoError(w.t, err)
	return out
}

func typed(t testing.TB, err error, typ string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, typ, contract.AsError(err).Type, "%v", err)
}

func is(t testing.TB, want, text, state string) {
	t.Helper()
	assert.Equal(t, want, text+"|"+state)
}
