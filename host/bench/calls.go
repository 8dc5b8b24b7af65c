package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/edn"
)

const rolePlugin = "plugin"

// servePlugin serves the plugin of this program. The argument "one" selects an echo, "held" a
// plugin whose calls are held; any other value is the name of a plugin that failover kills.
func servePlugin(which string) {
	if which == "held" {
		serveHeld()
		return
	}
	do := mortal
	if which == "one" {
		which, do = "echo", func(_ context.Context, in edn.Value) (edn.Value, error) { return in, nil }
	}
	intent := "bench/" + which
	if which == "other" {
		intent = "bench/next"
	}
	sdk.Serve(sdk.Plugin{
		Name: "bench", Version: "1.0.0",
		Capabilities: []sdk.Capability{sdk.Func("bench/"+which, sdk.Intents(intent), do)},
	})
}

const benchConfig = `ferment {
  data_dir = "var"
}

plugin "bench" {
  command = [%[1]q, "plugin", "one"]
}
`

// hosted is a host with the plugin.
type hosted struct {
	host    *daemon.Host
	service *act.Service
	dir     string
}

func startHost(config string) (*hosted, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ferment.hcl")
	if err := os.WriteFile(path, fmt.Appendf(nil, config, self), 0o600); err != nil {
		return nil, err
	}
	options := setup.Options{Config: path, Dir: dir, Version: "bench", Env: os.LookupEnv}
	// The lock file names the running program, as after an installation.
	if _, err := setup.Lock(context.Background(), options, setup.LockWish{}); err != nil {
		return nil, err
	}
	host, err := daemon.Start(context.Background(), daemon.Options{Options: options})
	if err != nil {
		return nil, err
	}
	return &hosted{host: host, service: host.Service(), dir: dir}, nil
}

func (h *hosted) close() {
	h.host.Close()
	_ = os.RemoveAll(h.dir)
}

// call executes one gated act, from the EDN text of the request to the EDN text of the response.
func (h *hosted) call(ctx context.Context, text []byte) error {
	request, err := edn.Read(text)
	if err != nil {
		return err
	}
	response, failure := h.service.Do(ctx, act.Act{Request: request})
	if failure != nil {
		return failure
	}
	if out := response.Canonical(); len(out) == 0 {
		return fmt.Errorf("no answer")
	}
	return nil
}

// calls compares gated calls with bare echoes of equal size.
func calls(p pace) ([]row, error) {
	h, err := startHost(benchConfig)
	if err != nil {
		return nil, err
	}
	defer h.close()
	b, err := startBare()
	if err != nil {
		return nil, err
	}
	defer b.close()
	var rows []row
	ctx, small, large := context.Background(), envelope(1<<10), envelope(1<<20)
	ours, theirs, err := oneByOne(p, p.calls, func() error { return h.call(ctx, small) }, func() error { return b.echo(ctx, small) })
	if err != nil {
		return nil, err
	}
	p50, bare50 := median(ours), median(theirs)
	rows = append(rows, against("gated call 1 KiB, p50", p50, "bare go-plugin", bare50, 1.6))
	p99 := quantile(ours, 0.99)
	rows = append(rows, row{work: "gated call 1 KiB, p99 / own p50", ours: figure(p99), peer: "p50 " + figure(p50), ratio: float64(p99) / float64(p50), goal: "<= 3.00", within: float64(p99)/float64(p50) <= 3})
	request, err := edn.Read(small)
	if err != nil {
		return nil, err
	}
	alone, err := startAlone()
	if err != nil {
		return nil, err
	}
	defer alone.close()
	ours, theirs, err = oneByOne(p, p.calls, func() error { return alone.call(ctx, request) }, func() error { return b.echo(ctx, small) })
	if err != nil {
		return nil, err
	}
	rows = append(rows, against("of it the plugin wire alone, p50", median(ours), "bare go-plugin", median(theirs), 0))
	many, err := sideBySide(p, 64, "gated call 1 KiB", func() error { return h.call(ctx, small) }, b, small)
	if err != nil {
		return nil, err
	}
	many.goal, many.within = ">= 0.85", many.ratio >= 0.85
	rows = append(rows, many)
	if many, err = sideBySide(p, 64, "of it the plugin wire alone", func() error { return alone.call(ctx, request) }, b, small); err != nil {
		return nil, err
	}
	rows = append(rows, many)
	ours, theirs, err = oneByOne(p, max(10, p.calls/20), func() error { return h.call(ctx, large) }, func() error { return b.echo(ctx, large) })
	if err != nil {
		return nil, err
	}
	return append(rows, against("gated call 1 MiB text, p50", median(ours), "bare go-plugin", median(theirs), 3)), nil
}

// envelope returns a request of about n bytes.
func envelope(n int) []byte {
	head := `{:proto 1 :trace {:id "bench"} :task {:intent :bench/echo} :input {:text "` + "%s" + `"}}`
	text := strings.Repeat("plain words and a few more, ", n/28+1)
	return fmt.Appendf(nil, head, text[:max(1, n-len(head)+2)])
}

// oneByOne calls ferment and peer n times each in alternating rounds, and returns the time of each
// call. The first round only warms up.
func oneByOne(p pace, n int, ferment, peer func() error) (ours, theirs []time.Duration, err error) {
	time1 := func(into *[]time.Duration, fn func() error) error {
		for range n {
			began := time.Now()
			if err := fn(); err != nil {
				return err
			}
			*into = append(*into, time.Since(began))
		}
		return nil
	}
	for round := range p.rounds + 1 {
		if round == 1 { // the first round warms up
			ours, theirs = nil, nil
		}
		if err := time1(&ours, ferment); err != nil {
			return nil, nil, err
		}
		if err := time1(&theirs, peer); err != nil {
			return nil, nil, err
		}
	}
	return ours, theirs, nil
}

// sideBySide compares the rates of calls by many concurrent callers.
func sideBySide(p pace, callers int, work string, call func() error, b *bare, text []byte) (row, error) {
	var ours, theirs []float64
	for range p.rounds {
		a, err := rate(callers, p.calls, call)
		if err != nil {
			return row{}, err
		}
		z, err := rate(callers, p.calls, func() error { return b.echo(context.Background(), text) })
		if err != nil {
			return row{}, err
		}
		ours, theirs = append(ours, a), append(theirs, z)
	}
	a, z := median(ours), median(theirs)
	return row{
		work: fmt.Sprintf("%s, %d callers", work, callers), ours: fmt.Sprintf("%.0f/s", a), peer: fmt.Sprintf("bare go-plugin %.0f/s", z),
		ratio: a / z, within: true,
	}, nil
}

// rate returns the calls per second of concurrent callers together.
func rate(callers, n int, call func() error) (float64, error) {
	var group sync.WaitGroup
	errs := make(chan error, callers)
	began := time.Now()
	for range callers {
		group.Go(func() {
			for range max(1, n/8) {
				if err := call(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	return float64(callers*max(1, n/8)) / took.Seconds(), nil
}
