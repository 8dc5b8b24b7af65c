package daemon

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// newRescorer creates the rescorer. It is idle until a daemon runs it.
func (h *Host) newRescorer(loaded *setup.Loaded, o Options) *rescore.Rescorer {
	return rescore.New(rescore.Settings{
		Clock: dispatch.SystemClock{}, Store: calibrations.Dir(loaded.Host.DataDir), Random: rand.Float64,
		Tell:    func(n stats.Notice) { h.notice(n, o.Notices) },
		Believe: h.believe,
	})
}

// configureRescorer configures the rescorer for a configuration. In profile
// admin no judges are in use, because the host takes no acts.
func (h *Host) configureRescorer(loaded *setup.Loaded) {
	c := rescore.Config{Registry: loaded.Generation.Registry, Ask: h.grade}
	if loaded.Profile != language.ProfileAdmin {
		c.Used = loaded.Generation.JudgesInUse()
	}
	h.rescorer.Configure(c)
}

// hostPrincipal is the principal of requests by the host itself.
const hostPrincipal = "host"

// grade requests one verdict on a labelled answer. It is charged like a vote, to the tenant budget
// and to the user budget of hostPrincipal, and does not occupy a place in the queue.
func (h *Host) grade(ctx context.Context, request edn.Value) (edn.Value, error) {
	turn := h.nested("")
	defer turn.Release()
	response, failure := turn.Do(ctx, act.Act{
		Request:       request,
		Principal:     hostPrincipal,
		PrincipalType: hostPrincipal,
		Roles:         []string{policy.RoleOperator},
		Grading:       true,
	})
	if failure != nil {
		return response, failure
	}
	return response, nil
}

// believe puts a new calibration record into force.
func (h *Host) believe(j *registry.Judge, r calibration.Record) {
	g := h.runs.now()
	g.judges.forget(j.Name)
	c, ok := g.loaded.Generation.Registry.Capability(r.Capability)
	if !ok {
		return
	}
	drift := ""
	if r.Drifted(j.Drift) {
		drift = r.Decline()
	}
	h.stats.Believe(j.Name, c, j.Intent, g.client.State(c.ID).Edition, drift, time.Now())
}

// Judges returns the state of the judges of the current configuration.
func (h *Host) Judges() []rescore.Status { return h.rescorer.Status() }

// Judges implements httpapi.Control.
func (c control) Judges() edn.Value {
	h, _ := c.now()
	return JudgesValue(h.Judges(), h.runs.now().judges.share)
}

// JudgesValue returns the states of judges in the form of the action judge-list. share, if not nil,
// returns the statistics of the answers that a judge graded; the EDN nil if there are none.
func JudgesValue(all []rescore.Status, share func(judge string) edn.Value) edn.Value {
	list := make([]edn.Value, len(all))
	for i, s := range all {
		list[i] = s.Value(true)
		if share == nil {
			continue
		}
		if v := share(s.Judge.Name); !v.IsNil() {
			list[i] = list[i].AssocKey("answers", v)
		}
	}
	return edn.MustMap(edn.K("judges"), edn.Vector(list...))
}

// Calibrate implements httpapi.Control.
func (c control) Calibrate(ctx context.Context, how httpapi.Calibration) (edn.Value, *contract.Error) {
	h, l := c.now()
	if l.Profile == language.ProfileAdmin {
		return edn.Nil(), contract.Errorf("policy/blocked",
			"profile admin takes no acts, and measuring a judge needs acts")
	}
	out, err := h.rescorer.Score(ctx, how.Judge, rescore.Options{
		File:     how.File,
		Why:      calibration.ByOperator,
		Reset:    how.Reset,
		Parallel: how.Parallel,
		Deadline: how.Deadline,
	})
	if err != nil {
		return edn.Nil(), contract.AsError(err)
	}
	return CalibratedValue(out, l.Host.DataDir), nil
}

// CalibratedValue returns the outcome of a measurement as EDN, with the path of the calibration
// file.
func CalibratedValue(out rescore.Outcome, dataDir string) edn.Value {
	return out.Value().AssocKey("file", edn.Text(calibrations.Dir(dataDir).File(out.Judge.Name)))
}
