package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// failoverConfig has an intent for each recovery from a dead process: another candidate that is
// ready, a standby of the same plugin, and a cold start. The plugins remove a file named in the
// call, so they are not isolated.
const failoverConfig = `ferment {
  data_dir = "var"
  profile  = "dev"
}

plugin "next" {
  command = [%[1]q, "plugin", "next"]
  isolation { level = "none" }
  restart {
    max     = 1000
    backoff = "1ms"
  }
}

plugin "other" {
  command = [%[1]q, "plugin", "other"]
  isolation { level = "none" }
}

plugin "warm" {
  command = [%[1]q, "plugin", "warm"]
  isolation { level = "none" }
  instances { standby = 1 }
  restart {
    max     = 1000
    backoff = "1ms"
  }
}

plugin "cold" {
  command = [%[1]q, "plugin", "cold"]
  isolation { level = "none" }
  restart {
    max     = 1000
    backoff = "1ms"
    jitter  = 0
  }
}

dispatch "default" {
  retry {
    same_capability = 3
    fallback        = 1
    backoff         = "1ms"
  }
  breaker {
    window      = 1000
    min_samples = 1000
  }
}

dispatch "at-once" {
  retry {
    same_capability = 0
    fallback        = 1
  }
  breaker {
    window      = 1000
    min_samples = 1000
  }
}

intent "bench/next" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["bench/next", "bench/other"]
  dispatch   = "at-once"
}

intent "bench/warm" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["bench/warm"]
}

intent "bench/cold" {
  in         = "req/any"
  out        = "res/any"
  candidates = ["bench/cold"]
}
`

// mortal answers a call. If the file named in the call exists, it removes the file and kills its
// own process instead.
func mortal(_ context.Context, in edn.Value) (edn.Value, error) {
	if path, ok := in.Key("die").AsString(); ok && os.Remove(path) == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return edn.MustMap(edn.K("ok"), edn.Bool(true)), nil
}

// failover measures acts whose first process is killed during the call.
func failover(p pace) ([]row, error) {
	h, err := startHost(failoverConfig)
	if err != nil {
		return nil, err
	}
	defer h.close()
	times := map[string][]time.Duration{}
	for range max(3, p.rounds) {
		for _, intent := range []string{"next", "warm", "cold"} {
			took, err := h.killed(intent)
			if err != nil {
				return nil, fmt.Errorf("failover by %s: %w", intent, err)
			}
			times[intent] = append(times[intent], took)
		}
	}
	next, warm, cold := median(times["next"]), median(times["warm"]), median(times["cold"])
	const limit = 10 * time.Millisecond
	return []row{
		{work: "killed in a call, next candidate answers", ours: figure(next), goal: "<= " + figure(limit), within: next <= limit},
		against("killed in a call, standby answers", warm, "cold start", cold, 0.15),
	}, nil
}

// killed returns the time of an act whose first process is killed. It first waits until all
// processes are ready.
func (h *hosted) killed(intent string) (time.Duration, error) {
	if err := h.settled(); err != nil {
		return 0, err
	}
	token := filepath.Join(h.dir, "token")
	if err := os.WriteFile(token, nil, 0o600); err != nil {
		return 0, err
	}
	request := edn.MustMap(
		edn.K("proto"), edn.Int(contract.Proto), edn.K("trace"), edn.MustMap(edn.K("id"), edn.Text("bench")),
		edn.K("task"), edn.MustMap(edn.K("intent"), edn.K("bench/"+intent)),
		edn.K("input"), edn.MustMap(edn.K("die"), edn.Text(token)))
	began := time.Now()
	response, failure := h.service.Do(context.Background(), act.Act{Request: request})
	took := time.Since(began)
	if failure != nil {
		return 0, failure
	}
	if text := response.Canonical(); len(text) == 0 {
		return 0, fmt.Errorf("no answer")
	}
	if _, err := os.Stat(token); err == nil {
		return 0, fmt.Errorf("no process died")
	}
	return took, nil
}

// settled waits until each plugin has its configured number of ready processes.
func (h *hosted) settled() error {
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		missing := map[string]int{"next": 1, "other": 1, "warm": 2, "cold": 1}
		for _, instance := range h.host.Plugins() {
			if instance.State == "ready" {
				missing[instance.Plugin]--
			}
		}
		if missing["next"]+missing["other"]+missing["warm"]+missing["cold"] == 0 {
			return nil
		}
	}
	return fmt.Errorf("the plugins did not get ready within %s", deadline)
}
