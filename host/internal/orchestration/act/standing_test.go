package act_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// adminsWrite permits fs/write to administrators and writers, and acts of text/respond to callers
// without the role mute.
func adminsWrite(c *act.Config) {
	c.Access, c.Effects = policy.ShippedAccess(), dispatchtest.Open()
	c.Access.Intents = policy.Rules{"text/respond": {Forbidden: []string{"role/mute"}, Any: []string{policy.RoleAny}}}
	c.Effects.Rules = maps.Clone(c.Effects.Rules)
	c.Effects.Rules["fs/write"] = policy.Rule{Any: []string{policy.RoleAdmin, "role/writer"}}
}

func named(name string, roles ...string) *policy.Caller {
	return &policy.Caller{Name: name, Roles: roles}
}

// standing has the rights that the owner of the recorded run has now.
func standing(now *policy.Caller, gone *contract.Error) func(*act.Config) {
	return func(c *act.Config) {
		c.Standing = func(*journal.RunAccepted) (*policy.Caller, *contract.Error) { return now, gone }
	}
}

// JRN-051, AUTH-003, FX-002: a call that a replay makes must be permitted to the caller that
// replays, with the limits of its credential, and to the owner of the recorded run as it is now.
func TestFillIsPermittedToBoth(t *testing.T) {
	locked := contract.Errorf("auth/forbidden", "the user is locked")
	limited := func(n policy.Narrowing) *policy.Caller {
		return &policy.Caller{Name: "root", Roles: []string{policy.RoleAdmin}, Narrow: &n}
	}
	for name, tc := range map[string]struct {
		by, now *policy.Caller
		gone    *contract.Error
		refused string // type of the error of the replay
		failed  string // type of the error of its run
	}{
		"both may":               {by: named("root", policy.RoleAdmin), now: named("ada", "role/writer", policy.RoleUser)},
		"it may not":             {by: named("op", policy.RoleOperator), now: named("ada", policy.RoleAdmin), failed: "auth/forbidden-effect"},
		"the owner lost it":      {by: named("root", policy.RoleAdmin), now: named("ada", policy.RoleUser), failed: "auth/forbidden-effect"},
		"no account":             {by: named("op", policy.RoleOperator), failed: "auth/forbidden-effect"},
		"the owner has no role":  {by: named("root", policy.RoleAdmin), now: named("ada"), refused: "auth/forbidden"},
		"the owner is locked":    {by: named("root", policy.RoleAdmin), gone: locked, refused: "auth/forbidden"},
		"its token has no role":  {by: limited(policy.Narrowing{Roles: []string{policy.RoleUser}}), failed: "auth/forbidden-effect"},
		"its token: intents":     {by: limited(policy.Narrowing{Intents: []string{"text/verify"}}), refused: "auth/forbidden"},
		"its role forbids":       {by: named("m", policy.RoleAdmin, "role/mute"), refused: "auth/forbidden"},
		"the owner's forbids":    {by: named("root", policy.RoleAdmin), now: named("ada", policy.RoleAdmin, "role/mute"), refused: "auth/forbidden"},
		"its token has all that": {by: limited(policy.Narrowing{Intents: []string{"text/*"}, Roles: []string{policy.RoleAdmin}})},
	} {
		t.Run(name, func(t *testing.T) {
			a := by(policy.RoleAdmin, resumeCases["effect"])
			w := resumeWorld(t)
			run, refused := service(t, w, adminsWrite).Start(t.Context(), a)
			require.Nil(t, refused, "%v", refused)
			<-run.Done()
			records := decoded(t, run.Records())
			require.Equal(t, journal.StatusCompleted, finished(t, records).Status)

			w = resumeWorld(t)
			s := service(t, w, adminsWrite, standing(tc.now, tc.gone))
			replay := func(how dispatch.Fill) (*act.Run, *contract.Error) {
				a, refused := s.Fill(run.ID(), records, act.Filling{Fill: how, By: tc.by})
				if refused != nil {
					return nil, refused
				}
				return s.Start(t.Context(), a)
			}
			swap := dispatch.Fill{Effects: []string{"fs/write"}, Swap: map[string]string{"a/puts": "a/adds", "a/one": "a/adds"}}
			again, refused := replay(swap)
			if tc.refused != "" {
				require.NotNil(t, refused)
				assert.Equal(t, tc.refused, refused.Type)
				assert.Empty(t, w.Calls())
				return
			}
			require.Nil(t, refused, "%v", refused)
			<-again.Done()
			accepted := again.Records()[0].Body.(*journal.RunAccepted)
			assert.Equal(t, []string{"ada", run.ID(), tc.by.Name}, []string{accepted.Principal, accepted.ReplayOf, accepted.ReplayBy})
			row := journal.ActOf(again.Records())
			assert.Equal(t, []string{"ada", run.ID(), tc.by.Name}, []string{row.Principal, row.ReplayOf, row.ReplayBy})
			if end := finished(t, again.Records()); tc.failed == "" {
				assert.Equal(t, journal.StatusCompleted, end.Status)
				assert.Contains(t, called(w), "a/adds")
			} else if assert.NotNil(t, end.Err) {
				assert.Equal(t, tc.failed, end.Err.Type)
				assert.Empty(t, w.Calls())
			}
			again, refused = replay(dispatch.Fill{}) // what is recorded does not happen again
			require.Nil(t, refused, "%v", refused)
			<-again.Done()
			assert.Equal(t, journal.StatusCompleted, finished(t, again.Records()).Status)
			assert.NotContains(t, called(w), "a/puts")
		})
	}
}

// HCL-040, AUTH-003: a run that is resumed has the rights of its owner, as far as the owner still
// has them; what the owner has gained since then does not widen it. A locked owner ends a run that
// was interrupted, and leaves one that waits for a decision as it is.
func TestResumeIsPermittedToTheOwnerNow(t *testing.T) {
	locked := contract.Errorf("auth/forbidden", "the user is locked")
	for name, tc := range map[string]struct {
		role   string
		now    *policy.Caller
		gone   *contract.Error
		other  bool // the candidate without effects answers
		failed string
	}{
		"as before":       {role: policy.RoleAdmin, now: named("ada", policy.RoleAdmin)},
		"with fewer":      {role: policy.RoleAdmin, now: named("ada", "role/writer", policy.RoleUser)},
		"without account": {role: policy.RoleAdmin},
		"lost the role":   {role: policy.RoleAdmin, now: named("ada", policy.RoleUser), other: true},
		"lost all roles":  {role: policy.RoleAdmin, now: named("ada"), failed: "auth/forbidden"},
		"locked":          {role: policy.RoleAdmin, gone: locked, failed: "auth/forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			a := by(tc.role, resumeCases["effect"])
			run, refused := service(t, resumeWorld(t), adminsWrite).Start(t.Context(), a)
			require.Nil(t, refused, "%v", refused)
			<-run.Done()
			past := decoded(t, run.Records()[:2]) // nothing was called
			kept := journal.NewMemory()
			kept.Load(run.ID(), past)
			w := resumeWorld(t)
			s := service(t, w, adminsWrite, standing(tc.now, tc.gone), func(c *act.Config) { c.Journal = kept })
			again, refused := s.Resume(t.Context(), run.ID(), past, crashed)
			if tc.gone != nil || tc.failed == "auth/forbidden" {
				require.NotNil(t, refused, "it was asked for")
				assert.Equal(t, tc.failed, refused.Type)
				records, err := kept.Records(run.ID())
				require.NoError(t, err)
				assert.Len(t, records, len(past))
				again, refused = s.Recall(t.Context(), run.ID(), past[0].Body.(*journal.RunAccepted), nil)
				require.Nil(t, refused, "%v", refused)
				require.True(t, again.AwaitTurn())
				require.Nil(t, s.Begin(again, past, journal.ResumedCrash))
			}
			<-again.Done()
			end := finished(t, again.Records())
			if tc.failed == "" {
				assert.Equal(t, journal.StatusCompleted, end.Status)
				assert.Equal(t, map[bool]string{false: "a/puts", true: "a/one"}[tc.other], journal.NewReport(again.Records()).Nodes[0].Answered)
				assert.Equal(t, !tc.other, slices.Contains(called(w), "a/puts"))
				return
			}
			require.NotNil(t, end.Err)
			assert.Equal(t, tc.failed, end.Err.Type)
			assert.NotContains(t, called(w), "a/puts")
		})
	}
}

// RUN-022, AUTH-003: a request that continues the failed run of its idempotency key gives the run no
// right that its own credential does not have, although the run was accepted with more.
func TestKeyedRunIsPermittedToTheRequest(t *testing.T) {
	text := ownPlan(`{:nodes [
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/flaky]} :input {:prompt "p"} :as :x}
	  {:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} :input {:prompt {:slot/path [:x :out :by]}}
	   :effects {:allowed #{:fs/write}} :as :y}]}`, "", `:effects {:allowed #{:fs/write}} `+keyed)
	for name, tc := range map[string]struct {
		narrow  *policy.Narrowing
		refused string
	}{
		"all rights":     {nil, ""},
		"without a role": {&policy.Narrowing{Roles: []string{policy.RoleUser}}, "plan/invalid"},
		"another intent": {&policy.Narrowing{Intents: []string{"text/verify"}}, "auth/forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w := reopenWorld(t)
			kept := newKeeper()
			s := service(t, w, adminsWrite, func(c *act.Config) { c.Journal, c.Keys, c.Suspends = kept, &act.Keys{}, true })
			a := by(policy.RoleAdmin, text)
			first, refused := s.Start(t.Context(), a)
			require.Nil(t, refused, "%v", refused)
			<-first.Done()
			require.Equal(t, "provider/unavailable", finished(t, first.Records()).Err.Type)
			a.Narrow = tc.narrow
			again, refused := s.Start(t.Context(), a)
			if tc.refused != "" {
				require.NotNil(t, refused)
				assert.Equal(t, tc.refused, refused.Type)
				assert.Len(t, kept.runs[first.ID()], len(first.Records()), "the run stays as it was")
				assert.NotContains(t, called(w), "a/adds")
				a.Narrow = nil
				again, refused = s.Start(t.Context(), a)
			}
			require.Nil(t, refused, "%v", refused)
			<-again.Done()
			assert.Equal(t, first.ID(), again.ID())
			assert.Contains(t, called(w), "a/adds")
			assert.Nil(t, finished(t, again.Records()).Err)
		})
	}
}

// RUN-015, AUTH-003: each retry of a job has the rights that its owner has then. A role that was
// withdrawn for one of them and is restored counts again.
func TestRetryHasTheRightsOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := reopenWorld(t)
		w.Func("a/adds", func(ctx context.Context, c dispatch.Call) dispatchtest.Step {
			if c.Attempt == 1 {
				return dispatchtest.Step{Err: contract.Errorf("provider/unavailable", "no server listens")}
			}
			return answerInput(ctx, c)
		})
		kept, epoch := journal.NewMemory(), 0
		one := queue.New(queue.Settings{Workers: 1, MaxQueued: 9, Classes: []queue.Class{{Name: "batch", Workers: 1, MaxQueued: 9, Weight: 1}}}, time.Now)
		s := service(t, w, adminsWrite, func(c *act.Config) {
			c.Journal, c.Queue, c.Retry = memory{kept}, one, act.Retry{MaxAttempts: 3, Backoff: time.Second}
			c.Standing = func(*journal.RunAccepted) (*policy.Caller, *contract.Error) {
				if epoch++; epoch == 2 {
					return named("ada", policy.RoleUser), nil
				}
				return named("ada", policy.RoleAdmin), nil
			}
		})
		run, refused := s.Submit(by(policy.RoleAdmin, asking("[:a/adds :a/down]", "", "{}", ":response/type :accepted "+writes)))
		require.Nil(t, refused, "%v", refused)
		require.True(t, run.AwaitTurn())
		records, err := kept.Records(run.ID())
		require.NoError(t, err)
		require.Nil(t, s.Begin(run, records, ""))
		<-run.Done()
		assert.Equal(t, []string{"a/adds", "a/down", "a/adds"}, called(w))
		assert.Equal(t, journal.StatusCompleted, finished(t, run.Records()).Status)
	})
}

// JRN-041, AUTH-003: the call whose outcome is unknown of a run whose owner was locked is decided
// before the run ends.
func TestBarredOwnerDoesNotHideAnUnknownOutcome(t *testing.T) {
	run, refused := service(t, resumeWorld(t), adminsWrite).Start(t.Context(), by(policy.RoleAdmin, resumeCases["once"]))
	require.Nil(t, refused, "%v", refused)
	<-run.Done()
	past := decoded(t, cutBefore(t, run.Records(), true, startsCall("a/adds")))
	kept := journal.NewMemory()
	kept.Load(run.ID(), past)
	w := resumeWorld(t)
	s := service(t, w, adminsWrite, standing(nil, contract.Errorf("auth/forbidden", "the user is locked")),
		func(c *act.Config) { c.Journal, c.Suspends = memory{kept}, true })
	again, refused := s.Recall(t.Context(), run.ID(), past[0].Body.(*journal.RunAccepted), nil)
	require.Nil(t, refused, "%v", refused)
	require.True(t, again.AwaitTurn())
	require.Nil(t, s.Begin(again, past, journal.ResumedCrash))
	_, err := again.Wait()
	all := again.Records()
	last := suspendedWith(t, all, err, "effects/outcome-unknown")
	require.Len(t, last.Open, 1)
	assert.Equal(t, "a/adds", last.Open[0].CapID)
	for _, lost := range underWay(all) {
		assert.True(t, lost.Closed, "the end of the lost call is recorded")
	}
	_, refused = s.Resume(t.Context(), run.ID(), decoded(t, all), decide)
	require.NotNil(t, refused, "without a decision")
	again, refused = s.Resume(t.Context(), run.ID(), decoded(t, all), deciding("act", journal.DecisionRetry, edn.Nil()))
	require.Nil(t, refused, "%v", refused)
	_, err = again.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "auth/forbidden", err.Type)
	assert.Equal(t, journal.StatusFailed, finished(t, again.Records()).Status)
	assert.Empty(t, w.Calls())
}

// AUTH-003: a run whose owner lost a role that it needs fails, also under another configuration.
func TestLostRoleDoesNotSuspend(t *testing.T) {
	text := ownPlan(`{:nodes [{:op :call :intent :text/respond :dispatch {:candidates [:a/adds]} :input {:n 1} :as :x}]}`, "", writes)
	run, refused := service(t, resumeWorld(t), adminsWrite).Start(t.Context(), by(policy.RoleAdmin, text))
	require.Nil(t, refused, "%v", refused)
	<-run.Done()
	past := decoded(t, run.Records()[:2])
	kept := journal.NewMemory()
	kept.Load(run.ID(), past)
	s := service(t, resumeWorld(t), adminsWrite, standing(named("ada", policy.RoleUser), nil), reconfigured,
		func(c *act.Config) { c.Journal, c.Suspends = kept, true })
	again, refused := s.Resume(t.Context(), run.ID(), past, crashed)
	require.Nil(t, refused, "%v", refused)
	_, err := again.Wait()
	require.NotNil(t, err)
	assert.Equal(t, "plan/invalid", err.Type)
	assert.Equal(t, journal.StatusFailed, finished(t, again.Records()).Status)
}
