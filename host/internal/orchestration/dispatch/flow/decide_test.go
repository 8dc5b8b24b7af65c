package flow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
)

// good returns a failure that allows every action; each row of a table changes
// its subject.
func good(change func(*Failure)) Failure {
	f := Failure{
		Class: contract.ClassRetry, Outcome: Definite, Recovery: contract.RecoveryNone,
		Matched: true, TriesLeft: true, NextLeft: true,
	}
	change(&f)
	return f
}

// ATT-008: every row of the table; the first match applies.
func TestDecideRows(t *testing.T) {
	for name, tc := range map[string]struct {
		f      Failure
		action Action
		row    int
	}{
		"1 class stop!":              {good(func(f *Failure) { f.Class = contract.ClassFinal }), End, 1},
		"1 canceled or out of time":  {good(func(f *Failure) { f.Expired = true }), End, 1},
		"2 once, outcome unknown":    {good(func(f *Failure) { f.Recovery, f.Outcome = contract.RecoveryOnce, Unknown }), End, 2},
		"2 once, gate failed":        {good(func(f *Failure) { f.Recovery, f.Outcome = contract.RecoveryOnce, Judged }), End, 2},
		"2 idempotent, gate failed":  {good(func(f *Failure) { f.Recovery, f.Outcome = contract.RecoveryIdempotent, Judged }), End, 2},
		"2 child plan did an effect": {good(func(f *Failure) { f.DoneOnce = true }), End, 2},
		"3 repairs, whatever the switch set says": {good(func(f *Failure) {
			f.Class, f.Outcome, f.RoundsLeft, f.Matched = contract.ClassRepair, Judged, true, false
		}), Repair, 3},
		"3 idempotent, the node wants it": {good(func(f *Failure) {
			f.Class, f.Outcome, f.Recovery, f.RoundsLeft, f.RepairAsked = contract.ClassRepair, Judged, contract.RecoveryIdempotent, true, true
		}), Repair, 3},
		"2 idempotent, only the policy wants it": {good(func(f *Failure) {
			f.Class, f.Outcome, f.Recovery, f.RoundsLeft = contract.ClassRepair, Judged, contract.RecoveryIdempotent, true
		}), End, 2},
		"2 once, the node wants it repaired": {good(func(f *Failure) {
			f.Class, f.Outcome, f.Recovery, f.RoundsLeft, f.RepairAsked = contract.ClassRepair, Judged, contract.RecoveryOnce, true, true
		}), End, 2},
		"5 another class is not repaired":        {good(func(f *Failure) { f.RoundsLeft = true }), Again, 5},
		"4 not in the switch set":                {good(func(f *Failure) { f.Matched = false }), End, 4},
		"5 class retry":                          {good(func(f *Failure) {}), Again, 5},
		"5 class repair":                         {good(func(f *Failure) { f.Class, f.Outcome = contract.ClassRepair, Judged }), Again, 5},
		"5 once, definite failure":               {good(func(f *Failure) { f.Recovery = contract.RecoveryOnce }), Again, 5},
		"5 idempotent, unknown, same key":        {good(func(f *Failure) { f.Recovery, f.Outcome = contract.RecoveryIdempotent, Unknown }), Again, 5},
		"6 crash, comes back":                    {good(crashed), AgainWhenReady, 6},
		"6 crash, idempotent":                    {good(func(f *Failure) { crashed(f); f.Recovery = contract.RecoveryIdempotent }), AgainWhenReady, 6},
		"7 class switch":                         {good(func(f *Failure) { f.Class = contract.ClassSwitch }), Next, 7},
		"7 no tries left":                        {good(func(f *Failure) { f.TriesLeft = false }), Next, 7},
		"7 deterministic gate failure (ATT-009)": {good(func(f *Failure) { f.Class, f.Outcome, f.Deterministic = contract.ClassRepair, Judged, true }), Next, 7},
		"7 crash, quarantined":                   {good(func(f *Failure) { crashed(f); f.ComesBack = false }), Next, 7},
		"7 crash, no tries left":                 {good(func(f *Failure) { crashed(f); f.TriesLeft = false }), Next, 7},
		"7 a stop type that the set names":       {good(func(f *Failure) { f.Class = contract.ClassStop }), Next, 7},
		"8 done before, never elsewhere":         {good(func(f *Failure) { f.TriesLeft, f.Done = false, true }), End, 8},
		"5 done before, the same one may":        {good(func(f *Failure) { f.Done = true }), Again, 5},
		"8 no candidate left":                    {good(func(f *Failure) { f.TriesLeft, f.NextLeft = false, false }), End, 8},
		"8 idempotent, unknown, never another":   {good(func(f *Failure) { f.Recovery, f.Outcome, f.TriesLeft = contract.RecoveryIdempotent, Unknown, false }), End, 8},
	} {
		t.Run(name, func(t *testing.T) {
			action, row := Decide(tc.f)
			assert.Equal(t, tc.action, action, "%s, want %s", action, tc.action)
			assert.Equal(t, tc.row, row)
		})
	}
}

func TestActionsHaveNames(t *testing.T) {
	assert.Equal(t, "[end again again-when-ready next repair]", fmt.Sprint([]Action{End, Again, AgainWhenReady, Next, Repair}))
}

func crashed(f *Failure) {
	f.Class, f.Outcome, f.Crashed, f.ComesBack = contract.ClassSwitch, Unknown, true, true
}

// The recovery table of evaluation.md section 7 (JRN-041).
func TestRecoveryTable(t *testing.T) {
	for _, tc := range []struct {
		outcome     Outcome
		recovery    contract.RecoveryClass
		retry, next bool
	}{
		{Definite, contract.RecoveryNone, true, true},
		{Definite, contract.RecoveryIdempotent, true, true},
		{Definite, contract.RecoveryOnce, true, true},
		{Unknown, contract.RecoveryNone, true, true},
		{Unknown, contract.RecoveryIdempotent, true, false},
		{Unknown, contract.RecoveryOnce, false, false},
		{Judged, contract.RecoveryNone, true, true},
		{Judged, contract.RecoveryIdempotent, false, false},
		{Judged, contract.RecoveryOnce, false, false},
	} {
		retry, next, _ := allowed(Failure{Outcome: tc.outcome, Recovery: tc.recovery})
		assert.Equal(t, tc.retry, retry, "%v after %v", tc.recovery, tc.outcome)
		assert.Equal(t, tc.next, next, "%v after %v", tc.recovery, tc.outcome)
	}
}

// EVAL-073: in every state, nothing is dispatched after a stop, an unknown
// effect of class once is never repeated, and an idempotent one never goes to
// another candidate.
func TestDecideInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		f := Failure{
			Class:     contract.Class(rapid.IntRange(int(contract.ClassNone), int(contract.ClassFinal)).Draw(t, "class")),
			Outcome:   Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")),
			Recovery:  contract.RecoveryClass(rapid.IntRange(0, 2).Draw(t, "recovery")),
			Expired:   flag("over"),
			Matched:   flag("matched"),
			TriesLeft: flag("tries"), Deterministic: flag("deterministic"), Crashed: flag("crashed"),
			ComesBack: flag("comes back"), NextLeft: flag("next"), DoneOnce: flag("done once"),
		}
		action, row := Decide(f)
		if action == End {
			return
		}
		if f.Class == contract.ClassFinal || f.Expired || !f.Matched || f.DoneOnce {
			t.Fatalf("row %d went on", row)
		}
		if f.Recovery == contract.RecoveryOnce && f.Outcome != Definite {
			t.Fatalf("row %d may repeat an effect", row)
		}
		if f.Recovery == contract.RecoveryIdempotent && f.Outcome != Definite && action == Next {
			t.Fatalf("row %d asks a receiver that does not know the key", row)
		}
		if action == Next && !f.NextLeft || action != Next && !f.TriesLeft {
			t.Fatalf("row %d goes to a missing candidate", row)
		}
	})
}
