//go:build slow

package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// OPS-003, OPS-004: a daemon is reloaded with changes, its plugin is replaced, and it is
// stopped and started again in the middle of a replacement, under load. No act fails except with :runtime/draining, or because
// nothing listens any more; the next daemon answers it under its idempotency key. Every
// accepted act finishes, and each effect of class once happens once.
func TestRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := proof.Size(t, "restarts under load", 3, 20)
	reloads, swaps := proof.Of(8, 100), proof.Of(2, 20)
	reloaded, swapped := 0, 0
	w := newWorld(t, "ferment.hcl", testProfile)
	file := w.counting(t, sqliteStore)
	configuration := w.configuration()
	var pending, accepted sync.Map // keys of acts without an answer; jobs
	var acts, refused atomic.Int64
	for round := range rounds {
		s := w.serve()
		s.client.Transport.(*http.Transport).DisableKeepAlives = true
		send := func(key string, more string) (again bool) {
			body := envelopeOf("count/once", fmt.Sprintf("{:n %q}", key), fmt.Sprintf(`:idempotency/key %q :effects {:allowed #{:fs/write}} %s`, key, more))
			a := s.request(context.Background(), "POST", "/v1/act", body)
			switch {
			case errors.Is(a.err, syscall.ECONNREFUSED):
				return true
			case a.err == nil && a.status == 503 && strings.Contains(string(a.body), ":runtime/draining"):
				refused.Add(1)
				return true
			case a.err == nil && a.status == 202:
				id, _ := a.value(t).Key("job/id").AsString()
				accepted.Store(id, key)
			default:
				assert.NoError(t, a.err)
				assert.Equal(t, 200, a.status, "%s: %s", key, a.body)
			}
			acts.Add(1)
			return false
		}
		pending.Range(func(key, _ any) bool {
			assert.False(t, send(key.(string), ""), "the next daemon answers")
			pending.Delete(key)
			return true
		})
		var load sync.WaitGroup
		busy := make(chan struct{})
		var once sync.Once
		for k := range callers {
			load.Go(func() {
				for n := 0; ; n++ {
					key, more := fmt.Sprintf("%d/%d/%d", round, k, n), ""
					if k%2 == 1 {
						more = ":response/type :accepted"
					}
					if send(key, more) {
						pending.Store(key, true)
						return
					}
					if n == 3 {
						once.Do(func() { close(busy) })
					}
				}
			})
		}
		<-busy
		for range reloads/rounds + 1 {
			reloaded++
			w.write("ferment.hcl", configuration+fmt.Sprintf("budget \"run\" {\n  max_attempts = %d\n}\n", 100+reloaded))
			a := s.admin(`{:action :config-reload}`)
			require.Equal(t, 200, a.status, "%s", a.body)
			require.True(t, a.value(t).Key("result").Key("changed?").Truthy(), "%s", a.body)
		}
		swap := func() {
			a := s.admin(`{:action :plugin-swap :plugin "counter"}`)
			assert.Equal(t, 202, a.status, "%s", a.body)
		}
		next := 0
		for range swaps/rounds + 1 {
			swap()
			_, at, ok := s.logged(next, said("swapped"))
			require.True(t, ok)
			next = at + 1
			swapped++
		}
		swap()
		s.signal(syscall.SIGTERM)
		load.Wait()
		assert.Equal(t, 0, s.wait().code)
	}
	s := w.serve()
	jobs := 0
	accepted.Range(func(id, _ any) bool {
		jobs++
		s.becomes(id.(string), "completed")
		return true
	})
	s.stop()
	counts := map[string]int{}
	for line := range strings.Lines(w.effects(t, file)) {
		counts[strings.Fields(line)[1]]++
	}
	for key, n := range counts {
		assert.Equal(t, 1, n, key)
	}
	t.Logf("%d acts, %d of them jobs, %d refused while draining, %d effects; %d reloads, %d swaps", acts.Load(), jobs, refused.Load(), len(counts),
		reloaded, swapped)
	assert.GreaterOrEqual(t, reloaded, reloads)
	assert.GreaterOrEqual(t, swapped, swaps)
	assert.Positive(t, jobs)
	require.GreaterOrEqual(t, len(counts), jobs)
}
