//go:build linux && slow

package plugin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conformance/fixture/greedy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// WIRE-002, WIRE-003: a plugin in a separate process exceeds each bound of the
// contract. The host reacts as the row states, a plugin that is not stopped
// keeps serving, and another plugin is not affected.
func TestBounds(t *testing.T) {
	as := func(name, role string, args ...string) Settings {
		s := as(role, args...)
		s.Name, s.Restart.Max = name, 0
		s.Health.Timeout = 30 * time.Second // the attacks keep the machine busy
		return s
	}
	littering := func(what string) Settings {
		s := as(what, "greedy", what)
		s.Health.Interval = 50 * time.Millisecond
		return s
	}
	b := prepare(t, nil)
	host := &many{}
	b.AnswerCalls(host)
	began := time.Now()
	b.begin(as("greedy", "greedy"), as("muxed", "greedy", "mux"), as("broker", "greedy", "broker"), as("described", "greedy", "description"),
		as("printer", "greedy", "printed"), littering("socket-files"), littering("socket-bytes"), as("flapping", "greedy", "health-rate"), as("good", "good"))
	ready := func(names ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, name := range names {
			require.NoError(t, b.client.Await(ctx, name+"/echo"), b.steps())
		}
	}
	ready("greedy", "muxed", "printer", "good")

	ends := func(plugin, typ string) func(*testing.T, string) {
		return func(t *testing.T, name string) {
			_, err := b.take(t, plugin, name)
			assert.Equal(t, typ, typed(t, err).Type, "%v", err)
		}
	}
	says := func(typ string) func(*testing.T, string) {
		return func(t *testing.T, name string) {
			v, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			said, _ := v.Key("types").AsString()
			assert.Equal(t, typ, said)
		}
	}
	quarantined := func(plugin string) func(*testing.T, string) {
		return func(t *testing.T, _ string) {
			tr := b.until(t, plugin+" in quarantine", func(tr Transition) bool { return tr.Plugin == plugin && tr.To == Quarantined })
			require.NotNil(t, tr.Err)
			assert.ErrorIs(t, tr.Err, contract.OfType("runtime/protocol"))
		}
	}
	number := func(v edn.Value, key string) int64 { n, _ := v.Key(key).AsInt(); return n }
	attacks := map[string]func(*testing.T, string){
		"broker":       quarantined("broker"),
		"description":  quarantined("described"),
		"socket-files": quarantined("socket-files"),
		"socket-bytes": quarantined("socket-bytes"),
		"health-rate":  func(t *testing.T, _ string) { b.flap(t, "flapping", began) },
		"printed": func(t *testing.T, name string) {
			_, err := b.take(t, "printer", name)
			require.NoError(t, err)
		},
		"headers": ends("greedy", "runtime/protocol"), "message": ends("greedy", "runtime/protocol"), "events": ends("greedy", "runtime/protocol"),
		"blob-name": ends("greedy", "runtime/protocol"), "blobs": ends("greedy", "runtime/protocol"),
		"blob-bytes": ends("greedy", "runtime/protocol"), "restored": ends("greedy", "runtime/protocol"),
		"frames": ends("muxed", "runtime/protocol"), "credit": ends("muxed", "runtime/protocol"),
		"state-key": says("input/invalid"), "state-value": says("input/invalid"),
		"state-bytes": says("runtime/overloaded"), "state-keys": says("runtime/overloaded"),
		"notice": func(t *testing.T, _ string) {
			p := b.process(t, "greedy")
			assert.ErrorIs(t, p.wire.EndRun(t.Context(), "r1"), contract.OfType("runtime/protocol"))
		},
		"error-details": func(t *testing.T, name string) {
			_, err := b.take(t, "greedy", name)
			e := typed(t, err)
			assert.Equal(t, "input/invalid", e.Type)
			assert.Greater(t, number(e.Details, "left-out-bytes"), int64(wire.MaxErrorDetails))
		},
		"owed": func(t *testing.T, name string) {
			p := b.process(t, "muxed")
			soon, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			ask := func(ctx context.Context, name string) error {
				_, err := p.wire.Invoke(ctx, wire.CallContext{}, edn.MustRead(fmt.Sprintf(`{:input {:take %q}}`, name)), nil)
				return err
			}
			require.NoError(t, ask(soon, "opened"), "calls made before the stream is open have one each")
			ctx, cancel := context.WithCancel(soon)
			var calls sync.WaitGroup
			for range greedy.OwedCalls - 1 {
				calls.Go(func() { _ = ask(ctx, "owed") })
			}
			waiting := make(chan error, 1)
			go func() { waiting <- ask(soon, "owed") }()
			require.NoError(t, ask(soon, "arrived"))
			cancel()
			calls.Wait()
			assert.ErrorIs(t, <-waiting, contract.OfType("runtime/protocol"))
		},
		"connections": func(t *testing.T, name string) {
			v, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			assert.EqualValues(t, 4*wire.MaxHostConnections, number(v, "refused")+number(v, "done"))
			assert.Less(t, number(v, "done"), int64(wire.MaxHostConnections), "the plugin has one already")
			assert.Positive(t, number(v, "done"))
		},
		"streams": func(t *testing.T, name string) {
			v, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			assert.EqualValues(t, wire.MaxHostStreams, number(v, "done"))
		},
		"host-calls-of-call": func(t *testing.T, name string) {
			host.hold()
			defer host.release()
			v, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			assert.EqualValues(t, wire.MaxHostCallsPerCall+1, number(v, "refused"), "the others are canceled")
			assert.LessOrEqual(t, host.waiting(), wire.MaxHostCallsPerCall)
			said, _ := v.Key("types").AsString()
			assert.Contains(t, said, "runtime/overloaded")
		},
		"host-calls-total": func(t *testing.T, name string) {
			began := time.Now()
			v, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			more := int64(time.Since(began)/time.Second) + 1
			assert.GreaterOrEqual(t, number(v, "done"), int64(wire.MaxHostCallsTotal))
			assert.LessOrEqual(t, number(v, "done"), wire.MaxHostCallsTotal+more)
			said, _ := v.Key("types").AsString()
			assert.Equal(t, "plan/too-large", said)
		},
		"host-calls": func(t *testing.T, name string) {
			host.hold()
			defer host.release()
			const full = wire.MaxHostCalls / wire.MaxHostCallsPerCall
			answers := make(chan edn.Value, full)
			for range full {
				go func() {
					v, err := b.take(t, "greedy", name)
					assert.NoError(t, err)
					answers <- v
				}()
			}
			require.Eventually(t, func() bool { return host.waiting() == wire.MaxHostCalls }, patience, time.Millisecond)
			v, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			assert.EqualValues(t, wire.MaxHostCallsPerCall, number(v, "refused"))
			said, _ := v.Key("types").AsString()
			assert.Equal(t, "runtime/overloaded", said)
			host.release()
			for range full {
				assert.EqualValues(t, wire.MaxHostCallsPerCall, number(<-answers, "done"))
			}
		},
		"line": func(t *testing.T, name string) {
			_, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			l := waitIn(t, b.journal, "line that was cut", func() (Line, bool) {
				for _, l := range b.lines {
					if l.Plugin == "greedy" && l.Fields["cut_bytes"] != nil {
						return l, true
					}
				}
				return Line{}, false
			})
			assert.Len(t, l.Message, wire.MaxLine)
			assert.EqualValues(t, wire.MaxLine, l.Fields["cut_bytes"])
		},
		"log": func(t *testing.T, name string) {
			_, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			u, err := b.Supervisor.unit("greedy")
			require.NoError(t, err)
			waitIn(t, b.journal, "line about lines that were left out", func() (int, bool) {
				for _, l := range b.lines {
					if n, ok := l.Fields["dropped"].(int); ok && l.Plugin == "greedy" {
						return n, true
					}
				}
				u.log.mu.Lock()
				defer u.log.mu.Unlock()
				return u.log.dropped, u.log.dropped > 0
			})
		},
		"health": func(t *testing.T, name string) {
			_, err := b.take(t, "greedy", name)
			require.NoError(t, err)
			p := b.process(t, "greedy")
			_, err = p.wire.Probe(t.Context())
			assert.ErrorIs(t, err, contract.OfType("runtime/protocol"))
			assert.True(t, wire.Transport(err), "it does not count as a response")
		},
	}
	// Rows that break the plugin come last.
	late := map[string]int{"frames": 1, "owed": 2, "health": 3}
	for pass := range 4 {
		for _, bound := range wire.Bounds() {
			if late[bound.Name] != pass {
				continue
			}
			t.Run(bound.Name, func(t *testing.T) {
				attack := attacks[bound.Name]
				require.NotNil(t, attack, "no attack on %s", bound.Resource)
				attack(t, bound.Name)
				_, err := b.client.Invoke(t.Context(), call("good/echo", `{:a 1}`))
				require.NoError(t, err)
			})
		}
	}
	assert.Len(t, attacks, len(wire.Bounds()))
}
