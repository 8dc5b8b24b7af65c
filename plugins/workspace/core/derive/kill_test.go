package derive

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/killtest"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// killFiles are the files of the killed process, before and after their change.
func killFiles(changed bool) map[string]string {
	files := map[string]string{"a": "1", "d/b": "1", "d/e/c": "1", "d/e/f": "1", "g/h": "1"}
	if changed {
		files["d/e/c"], files["g/h"] = "2", "2"
	}
	return files
}

// killTable are the requests that are killed.
var killTable = map[string]func(*Engine) error{
	"synthesize": func(e *Engine) error {
		_, err := e.Synthesize(background, SynthesizeRequest{Caller: synthesis, Type: "t", Policy: edn.K("summarize"), Children: store.ChildrenBuild})
		return err
	},
	"regenerate": func(e *Engine) error {
		_, err := e.Regenerate(background, RegenerateRequest{Caller: synthesis, Recursive: true})
		return err
	},
	"generate": func(e *Engine) error {
		_, err := e.Generate(background, GenerateRequest{
			Caller:      writer,
			Targets:     []Target{{}},
			Recursive:   true,
			Type:        "m",
			Model:       "m/x",
			Concurrency: 1, // the same points in each run
		})
		return err
	},
}

// killEngine is an engine over a store of the killed process.
func killEngine(s *store.Store) *Engine {
	return New(Options{
		Store: s,
		Open: func(path string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(killFiles(true)[path])), nil
		},
		Agents: func() *agent.Set {
			set, err := agent.New(nil, nil)
			if err != nil {
				panic(err)
			}
			return set
		},
		Invoke: func(_ context.Context, c Call) (*Answer, error) {
			return &Answer{Out: edn.MustMap(edn.K("text"), edn.Text("about this"))}, nil
		},
		Now: func() int64 { return 0 },
	})
}

// killed runs the request in place of the tests, if the process is to be killed
// at one of its operations.
func killed() bool {
	k := killtest.Killed()
	if k == nil {
		return false
	}
	s, err := store.Open(background, k.Dir, store.Options{Now: func() int64 { return 1 }, Faults: k.Faults()})
	if err == nil {
		err = killTable[k.Work](killEngine(s))
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		panic(err)
	}
	k.Done()
	return true
}

// WS-043, WS-114: a process that is killed before, within or after any write,
// fsync or index step of a synthesis, a regeneration or a generation leaves a
// store that is valid; of a transaction all frames are there or none; and the same
// request completes the work, with the frames that it would have made at first.
func TestKilledRequests(t *testing.T) {
	want, points := map[string]map[string]string{}, map[string]int{}
	for name, work := range killTable {
		w := killWorld(t)
		require.NoError(t, work(killEngine(w.store)))
		want[name] = w.heads()
		w = killWorld(t)
		require.NoError(t, w.store.Close())
		_, points[name] = killtest.RunKilled(t, name, w.dir, 0)
	}
	for seed := range proof.Size(t, "killed requests", 10, 300) {
		r := rand.New(rand.NewPCG(uint64(seed), 114))
		for name, work := range killTable {
			w := killWorld(t)
			before := w.heads()
			require.NoError(t, w.store.Close())
			_, ended := killtest.RunKilled(t, name, w.dir, 1+r.IntN(points[name]))
			require.Zero(t, ended, "%s, seed %d: it was not killed", name, seed)

			report, err := store.Verify(background, w.dir, store.Check{})
			require.NoError(t, err)
			require.Empty(t, report.Errors, "%s, seed %d", name, seed)
			s, err := store.Open(background, w.dir, store.Options{Now: func() int64 { return 1 }, Unsynced: true})
			require.NoError(t, err)
			require.Nil(t, s.Damage(), "%s, seed %d", name, seed)
			w.store = s
			if after := w.heads(); name != "generate" { // its frames are committed one by one
				require.Contains(t, []map[string]string{before, want[name]}, after, "%s, seed %d", name, seed)
			}
			require.NoError(t, work(killEngine(s)), "%s, seed %d", name, seed)
			require.Equal(t, want[name], w.heads(), "%s, seed %d", name, seed)
			require.NoError(t, s.Close())
			report, err = store.Verify(background, w.dir, store.Check{})
			require.NoError(t, err)
			require.Empty(t, report.Errors, "%s, seed %d", name, seed)
		}
	}
}

// killWorld returns a workspace with a frame of every path, after two files
// changed.
func killWorld(t *testing.T) *world {
	w := newWorld(t, killFiles(false))
	w.whole(nil, store.BindsNode)
	w.scan(killFiles(true))
	return w
}
