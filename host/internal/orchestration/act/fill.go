package act

import (
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Fill holds the recorded run that an act replays in fill mode, and the options of the
// replay.
type Fill struct {
	dispatch.Fill
	run  string
	by   string
	past *journal.History
}

// Filling is how a run is replayed in fill mode, and on whose account.
type Filling struct {
	dispatch.Fill
	// By is the caller that replays the run; nil: the owner of this process. Decisions are the
	// access decisions that admitted its request.
	By        *policy.Caller
	Decisions []edn.Value
	// Imported marks a run of another host. Its caller has no account here, so that its
	// recorded roles apply.
	Imported bool
}

// Fill returns the act that replays a finished run as a new run (JRN-051). An attempt at
// the same place with the same request is not made: its recorded result is used, as are
// the recorded verdicts of capabilities on its answer. Everything else is executed under
// the configuration of this service: checks of the host run again, and other attempts
// are made. A recorded attempt costs the new run nothing. Caller, request and seed are
// those of the recorded run.
//
// What the new run does must be permitted to two principals: to the caller of the recorded
// run with the roles that it has now, and to how.By. The limits of both credentials apply.
//
// The error is run/not-resumable for a run that is not finished, auth/forbidden if the
// caller of the recorded run may not act any more, cap/not-found if a
// replacement in how.Swap is unknown, and invalid-request if the replaced capability was
// not a candidate in the run or the replacement does not serve its intent.
func (s *Service) Fill(run string, records []journal.Record, how Filling) (Act, *contract.Error) {
	past, err := replayable(run, records)
	if err != nil {
		return Act{}, err
	}
	reg := s.config.Registry
	for old, other := range how.Swap {
		if _, ok := reg.Capability(other); !ok {
			return Act{}, contract.Errorf("cap/not-found", "there is no capability :%s to call in place of :%s", other, old).
				DidYouMean(":" + reg.NearestCapability(other))
		}
		c, _ := reg.Capability(other)
		for _, r := range records {
			b, ok := r.Body.(*journal.NodeResolved)
			if !ok || !considers(r, old) || slices.Contains(c.Intents, b.Intent) {
				continue
			}
			if b.Intent == "" {
				return Act{}, contract.Errorf("invalid-request", "replay run %s: :%s is called as a tool, and only the capability of a :call can be replaced",
					run, old).WithHint("leave it out of the swaps")
			}
			return Act{}, contract.Errorf("invalid-request", "replay run %s: :%s does not serve the intent :%s, for which it would be called in place of :%s",
				run, other, b.Intent, old)
		}
		if !slices.ContainsFunc(records, func(r journal.Record) bool { return considers(r, old) }) {
			return Act{}, contract.Errorf("invalid-request",
				"replay run %s: :%s was not a candidate of any call, so nothing can replace it",
				run, old).
				WithHint("`ferment runs show " + run + "` lists the candidates")
		}
	}
	a := recordedAct(past.Accepted)
	if !how.Imported {
		now, err := s.standing(past.Accepted)
		if err != nil {
			return Act{}, err
		}
		if now != nil { // a new run has the rights that its caller has now, also new ones
			a.Roles, a.Tenant = now.Roles, now.Tenant
		}
	}
	a.Fill = &Fill{Fill: how.Fill, run: run, past: past}
	if how.By != nil {
		a.Also, a.Decisions, a.Fill.by = []policy.Caller{*how.By}, how.Decisions, how.By.Name
	}
	return a, nil
}

// considers reports whether a record names a capability as a candidate.
func considers(r journal.Record, capID string) bool {
	switch b := r.Body.(type) {
	case *journal.NodeResolved:
		return slices.ContainsFunc(b.Candidates, func(c journal.Candidate) bool { return c.CapID == capID }) ||
			slices.ContainsFunc(b.Rejected, func(c journal.Rejection) bool { return c.CapID == capID })
	case *journal.AttemptStarted:
		return b.CapID == capID
	}
	return false
}

// swap copies the capability swaps of a replay to the layer that all nodes inherit.
func (f *flight) swap(layer *policy.Layer) {
	if f.act.Fill != nil {
		layer.Swap = f.act.Fill.Swap
	}
}

// endReplay is the step of resume that fails the resumption of a fill replay: its
// options are not recorded.
func endReplay(f *flight) *contract.Error {
	if of := f.past.Accepted.ReplayOf; of != "" {
		return contract.Errorf("run/not-resumable", "run %s is a replay, which cannot be resumed after the end of its host", f.id).
			WithHint("replay run " + of + " again")
	}
	return nil
}
