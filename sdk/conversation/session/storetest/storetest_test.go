package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/conversation/session/storetest"
)

// faults are stores with one fault each.
var faults = map[string]func(*faulty) *faulty{
	"conflicts are not found": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, id string, _ session.Version, c session.Change) (session.Version, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			now, err := f.Memory.Load(ctx, id)
			if err != nil {
				return 0, err
			}
			return f.Memory.Commit(ctx, id, now.Version, c)
		}
		return f
	},
	"a conflict is any error": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, id string, base session.Version, c session.Change) (session.Version, error) {
			v, err := f.Memory.Commit(ctx, id, base, c)
			if errors.Is(err, session.ErrConflict) {
				err = errors.New("busy")
			}
			return v, err
		}
		return f
	},
	"half of a change is stored": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, id string, base session.Version, c session.Change) (session.Version, error) {
			if n := len(c.Messages); n > 3 {
				c.Messages = c.Messages[:n-1]
			}
			return f.Memory.Commit(ctx, id, base, c)
		}
		return f
	},
	"changes only append": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, id string, base session.Version, c session.Change) (session.Version, error) {
			if now, err := f.Memory.Load(ctx, id); err == nil && c.From >= 0 && c.From <= c.To && c.To <= len(now.Messages) {
				c.From, c.To = len(now.Messages), len(now.Messages)
			}
			return f.Memory.Commit(ctx, id, base, c)
		}
		return f
	},
	"cancellation is ignored": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, id string, base session.Version, c session.Change) (session.Version, error) {
			return f.Memory.Commit(context.WithoutCancel(ctx), id, base, c)
		}
		return f
	},
	"attributions are lost": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, id string, base session.Version, c session.Change) (session.Version, error) {
			var bare []conversation.Message
			for _, m := range c.Messages {
				bare = append(bare, m.WithAttribution(conversation.Attribution{}))
			}
			c.Messages = bare
			return f.Memory.Commit(ctx, id, base, c)
		}
		return f
	},
	"conversations are mixed up": func(f *faulty) *faulty {
		f.commit = func(ctx context.Context, _ string, base session.Version, c session.Change) (session.Version, error) {
			return f.Memory.Commit(ctx, "c-01", base, c)
		}
		return f
	},
	"it forgets": func(f *faulty) *faulty {
		f.reopen = func(*testing.T, session.Store) session.Store { return new(session.Memory) }
		return f
	},
	"none": func(f *faulty) *faulty { return f },
}

// faulty is a store whose fault replaces a method.
type faulty struct {
	session.Memory
	mu     sync.Mutex
	commit func(context.Context, string, session.Version, session.Change) (session.Version, error)
	reopen func(*testing.T, session.Store) session.Store
}

// Commit implements session.Store.
func (f *faulty) Commit(
	ctx context.Context, id string, base session.Version, c session.Change,
) (session.Version, error) {
	if f.commit == nil {
		return f.Memory.Commit(ctx, id, base, c)
	}
	return f.commit(ctx, id, base, c)
}

const chosenFault = "FERMENT_TEST_FAULT"

// CNV-031: the suite finds each of these faults, and none in a store without one.
// It runs in a process of its own, where it can fail.
func TestSuiteFindsFaults(t *testing.T) {
	if name := os.Getenv(chosenFault); name != "" {
		f := faults[name](&faulty{})
		storetest.Run(t, storetest.Store{
			Open:   func(*testing.T) session.Store { return faults[name](&faulty{}) },
			Reopen: f.reopen,
		})
		return
	}
	for name := range faults {
		t.Run(name, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run=^TestSuiteFindsFaults$")
			child.Env = append(os.Environ(), chosenFault+"="+name)
			out, err := child.CombinedOutput()
			if name == "none" {
				assert.NoError(t, err, "%s", out)
				return
			}
			assert.Error(t, err)
			assert.Contains(t, string(out), "--- FAIL: TestSuiteFindsFaults/", "%s", out)
			assert.NotContains(t, string(out), "panic:")
		})
	}
}
