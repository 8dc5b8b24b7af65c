package history

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// recordedRuns is the backend of an API that has recorded runs and the accounts of
// their readers.
type recordedRuns struct {
	httpapi.Backend // what no reader needs

	journal  *Runs
	settings *httpapi.Settings
	users    *identity.Service
}

func (b *recordedRuns) Health() httpapi.Health        { return httpapi.Health{OK: true, Version: "bench"} }
func (b *recordedRuns) Phase() string                 { return "ready" }
func (b *recordedRuns) Settings() *httpapi.Settings   { return b.settings }
func (b *recordedRuns) Identity() *identity.Service   { return b.users }
func (b *recordedRuns) Control() httpapi.Control      { return recordedControl{journal: b.journal} }
func (b *recordedRuns) Traced(string)                 {}
func (b *recordedRuns) Rejected(httpapi.Rejection)    {}
func (b *recordedRuns) Denied(httpapi.Denial)         {}
func (b *recordedRuns) Identified(httpapi.Identified) {}
func (b *recordedRuns) Permitted(httpapi.Permission)  {}

type recordedControl struct {
	httpapi.Control

	journal *Runs
}

func (c recordedControl) Runs() httpapi.Runs { return c.journal }

// serveRecorded serves the events of a store and returns how to read those of a run.
func serveRecorded(tb testing.TB, s *store.Store) (events func(run string) *http.Response) {
	tb.Helper()
	who := &identity.Settings{
		Required: true, Known: policy.BuiltinRoles(), LoggedIn: policy.RoleUser,
		Basic: identity.Basic{MinBytes: 12, Memory: 64, Time: 1}, TokenTTL: time.Hour, MaxTokenTTL: time.Hour,
	}
	users, err := identity.Open(tb.Context(), &identity.Memory{})
	require.NoError(tb, err)
	_, failed := users.AddUser(tb.Context(), who, identity.NewUser{Login: "ann", Roles: []string{policy.RoleOperator}})
	require.Nil(tb, failed)
	_, token, failed := users.AddToken(tb.Context(), who, identity.NewToken{Owner: "ann"})
	require.Nil(tb, failed)
	b := &recordedRuns{journal: &Runs{Store: s}, users: users, settings: &httpapi.Settings{
		Identity: who, Access: policy.ShippedAccess(), Limits: config.HTTPLimits{
			Headers: 32 << 10, HeaderRead: time.Minute, Idle: time.Minute, Write: time.Minute, StreamWrite: time.Minute,
			Connections: 1000, PerAddress: 1000,
		},
	}}
	server, err := httpapi.New(b, nil).Bind(tb.Context(), httpapi.Binding{Listen: []string{"127.0.0.1:0"}}, b.settings)
	require.NoError(tb, err)
	server.Serve()
	tb.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(run string) *http.Response {
		q, err := http.NewRequestWithContext(tb.Context(), http.MethodGet,
			"http://"+server.Addresses()[0]+"/v1/runs/"+run+"/events?format=edn", nil)
		require.NoError(tb, err)
		q.Header.Set("Authorization", "Bearer "+token)
		r, err := client.Do(q)
		require.NoError(tb, err)
		require.Equal(tb, http.StatusOK, r.StatusCode)
		return r
	}
}

// BenchmarkReaders is the time from the commit of the records of a step to the reading
// of their events by 64 readers of the run, which are in this process: its median and
// its 99th percentile (daemon 7, expected <= 5 ms).
func BenchmarkReaders(b *testing.B) {
	const readers, steps = 64, 50
	sum := journal.RefTo(edn.MustMap())
	step := []journal.Body{
		&journal.NodeResolved{Op: "call", Intent: "a/b", Candidates: []journal.Candidate{{CapID: "a/one"}}, Policy: "declared", Strategy: "cascade"},
		&journal.AttemptStarted{
			Attempt: 1, CapID: "a/one", CapVersion: "1.0.0", Request: sum, Effects: []string{"none"}, Recovery: "none",
			EffectKey: sum.Hash(), Budget: edn.MustMap(),
		},
		&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Usage: edn.MustMap(), Result: sum, ResultType: "value"},
		&journal.NodeCommitted{Value: sum, CapID: "a/one", Attempt: 1},
	}
	var committed atomic.Pointer[time.Time] // the last commit
	path := filepath.Join(b.TempDir(), "ferment.db")
	s, err := store.Open(b.Context(), store.Options{Path: path, Committed: func(int, int, time.Duration) {
		now := time.Now()
		committed.Store(&now)
	}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	events := serveRecorded(b, s)
	var all []time.Duration
	for run := 0; b.Loop(); run++ {
		script := &runScript{t: b, to: s, run: fmt.Sprintf("run_%026d", run), at: recordedAt, epoch: 1}
		script.begin("a/b")
		var reading, seen sync.WaitGroup
		delays := make([][]time.Duration, readers)
		seen.Add(readers)
		for i := range readers {
			body := events(script.run).Body
			reading.Go(func() {
				lines := bufio.NewScanner(body)
				for passed := false; lines.Scan(); {
					event, is := strings.CutPrefix(lines.Text(), "event: ")
					if !is {
						continue
					}
					if passed && event != "finished" {
						delays[i] = append(delays[i], time.Since(*committed.Load()))
					}
					if event == "attempt" && !passed || event == "commit" {
						passed = true
						seen.Done()
					}
				}
				_ = body.Close()
			})
		}
		seen.Wait() // what was recorded before
		for range steps {
			seen.Add(readers)
			script.put(step...)
			seen.Wait()
		}
		script.put(&journal.RunFinished{Status: "completed", Response: sum, Executed: true, Totals: edn.MustRead(`{:operations {} :attempts {}}`)})
		reading.Wait()
		for _, d := range delays {
			require.Len(b, d, steps*len(step))
			all = append(all, d...)
		}
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(all[(len(all)-1)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(0, "ns/op")
}
