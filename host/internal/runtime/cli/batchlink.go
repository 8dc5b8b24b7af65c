package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// daemonLink connects to the daemon of a data directory, also after its restarts. It is safe for
// concurrent use.
type daemonLink struct {
	socket, tokenFile string
	wait              time.Duration
	last              atomic.Int64 // time of the last response, in Unix nanoseconds

	mu    sync.Mutex
	there *client.Client // nil: not connected
}

func newDaemonLink(there *client.Client, socket, dataDir string, wait time.Duration) *daemonLink {
	return &daemonLink{socket: socket, tokenFile: daemon.AdminTokenFile(dataDir), wait: wait, there: there}
}

// dial returns a client. A daemon has a new token after each start.
func (d *daemonLink) dial(ctx context.Context) (*client.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.there != nil {
		return d.there, nil
	}
	there, err := client.Dial(ctx, d.socket, d.tokenFile)
	if errors.Is(err, client.ErrNoDaemon) {
		err = contract.Errorf("runtime/not-ready", "%w", err)
	}
	d.there = there
	return there, err
}

// drop removes a client that failed.
func (d *daemonLink) drop(there *client.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.there == there {
		d.there = nil
	}
}

// The pause before another attempt of a request grows from firstPause to longestPause.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// act sends a request with an idempotency key until there is a response. stored reports whether an
// earlier command has started the run.
func (d *daemonLink) act(ctx context.Context, request edn.Value, dir string, isJSON bool) (response edn.Value, stored bool, err error) {
	started := false
	err = d.persist(ctx, func() (passes *contract.Error, err error) {
		var begins bool
		response, stored, begins, err = d.attempt(ctx, request, dir, isJSON)
		started = started || begins
		if err != nil {
			return retryable(err)
		}
		why := failureOf(response)
		if passing(response, why) {
			return why, nil
		}
		return nil, lasting(response, why)
	})
	return response, stored && !started, err
}

// has reports whether there is a run with an idempotency key of the user.
func (d *daemonLink) has(ctx context.Context, key string) (found bool, err error) {
	err = d.persist(ctx, func() (passes *contract.Error, err error) {
		there, err := d.dial(ctx)
		if err != nil {
			return retryable(err)
		}
		page, err := there.Runs(ctx, client.Filter{Key: key, Limit: 1})
		if err != nil {
			d.drop(there)
			return retryable(err)
		}
		found = len(page.Runs) > 0
		return nil, nil
	})
	return found, err
}

// retryable returns an error as one that passes, or as one that lasts.
func retryable(err error) (passes *contract.Error, lasts error) {
	why := contract.AsError(err)
	if why.Retryable || passing(edn.Nil(), why) {
		return why, nil
	}
	return nil, why
}

// persist calls try until it returns no failure that passes, which try returns while the daemon does
// not run or refuses the request. If no request of the link gets a response for the time wait, the
// error is that of the last attempt.
func (d *daemonLink) persist(ctx context.Context, try func() (passes *contract.Error, err error)) error {
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		why, err := try()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case why == nil:
			d.last.Store(time.Now().UnixNano())
			return nil
		}
		if since := time.Unix(0, max(begun.UnixNano(), d.last.Load())); time.Since(since) >= d.wait {
			return why.WithHint(
				"the same command continues the batch; \"ferment serve\" starts a daemon, \"ferment status\" shows its state")
		}
		again := pause/2 + rand.N(pause/2)
		if ms, ok := why.Details.Key("retry-after-ms").AsInt(); ok {
			again += min(time.Duration(ms)*time.Millisecond, d.wait)
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// attempt sends a request once. stored reports whether its run had begun before. begins reports
// whether the attempt may have begun the run: it did, or the daemon ended before its response.
func (d *daemonLink) attempt(
	ctx context.Context, request edn.Value, dir string, isJSON bool,
) (response edn.Value, stored, begins bool, err error) {
	there, err := d.dial(ctx)
	if err != nil {
		return edn.Nil(), false, false, err
	}
	got, err := there.Act(ctx, request, client.Call{Dir: dir, JSON: isJSON})
	if err != nil || got.Body.Key("error").Key("type").Equal(edn.K("auth/unauthorized")) {
		d.drop(there)
	}
	var network *net.OpError
	unsent := errors.As(err, &network) && network.Op == "dial"
	begins = err != nil && !unsent || got.Body.HasKey("run/id") && !got.Replayed
	return got.Body, got.Replayed, begins, err
}

// passing reports whether a failure is one of the daemon, not of the run. The same request can then
// be sent again soon, and gets a run or its result.
func passing(response edn.Value, failure *contract.Error) bool {
	switch {
	case failure == nil:
		return false
	case failure.Type == "runtime/draining", failure.Type == "runtime/starting":
		return true // the next daemon resumes the run, if there is one
	case response.HasKey("run/id"):
		return false
	case failure.Type == "auth/unauthorized": // the token of an earlier daemon
		return true
	}
	status := failure.HTTPStatus()
	return failure.Retryable && (status == 429 || status == 503)
}

// lasting returns the error of a daemon that cannot execute any line; nil if there is none.
func lasting(response edn.Value, failure *contract.Error) error {
	if failure == nil || failure.Type != "db/not-configured" || response.HasKey("run/id") {
		return nil
	}
	return failure.WithHint("a batch needs runs on disk: set store.driver = \"sqlite\"")
}
