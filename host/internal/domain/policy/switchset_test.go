package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
)

func parseSet(t *testing.T, members ...string) SwitchSet {
	t.Helper()
	s, err := ParseSwitchSet(members)
	require.NoError(t, err)
	return s
}

// ATT-009, ERR-006, ATT-008 row 4.
func TestSwitchSetMatches(t *testing.T) {
	crash := contract.Errorf("runtime/crashed", "x")
	for _, tt := range []struct {
		name string
		set  []string
		err  *contract.Error
		want bool
	}{
		{"type", []string{"runtime/crashed"}, crash, true},
		{"type with a colon", []string{":runtime/crashed"}, crash, true},
		{"alias", []string{"queue/full"}, contract.Errorf("runtime/overloaded", "x"), true},
		{"namespace", []string{"runtime/*"}, crash, true},
		{"other namespace", []string{"provider/*"}, crash, false},
		{"class", []string{"class/switch"}, crash, true},
		{"other class", []string{"class/retry", "class/repair"}, crash, false},
		{"empty", nil, crash, false},
		{"class as it was set", []string{"class/retry"}, crash.WithClass(contract.ClassRetry), true},
		{"stop by its own name", []string{"slot/unresolved"}, contract.Errorf("slot/unresolved", "x"), true},
		{"stop not by namespace", []string{"slot/*"}, contract.Errorf("slot/unresolved", "x"), false},
		{"stop! never", []string{"invalid-request", "budget/exceeded", "budget/*"}, contract.Errorf("budget/exceeded", "x"), false},
		{"own type of a plugin", []string{"demo/own"}, contract.Errorf("demo/own", "x"), true},
		{"own namespace of a plugin", []string{"demo/*"}, contract.Errorf("demo/own", "x"), true},
		{"cause", []string{"eval/must-failed"}, contract.Errorf("repair/exhausted", "x").WithCause(contract.Errorf("eval/must-failed", "y")), true},
		{"cause by class", []string{"class/repair"}, contract.Errorf("repair/exhausted", "x").WithCause(contract.Errorf("eval/must-failed", "y")), true},
		{"cause of a cause", []string{"format/drift"}, crash.WithCause(contract.Errorf("repair/exhausted", "x").WithCause(contract.Errorf("format/drift", "y"))), false},
		{"cause that stops, by namespace", []string{"slot/*"}, crash.WithCause(contract.Errorf("slot/unresolved", "x")), false},
		{"cause cannot lift a stop", []string{"runtime/crashed"}, contract.Errorf("slot/unresolved", "x").WithCause(crash), false},
		{"cause cannot lift a stop!", []string{"runtime/crashed"}, contract.Errorf("canceled", "x").WithCause(crash), false},
		{"lost race by class", []string{"class/switch", "class/retry", "class/repair"}, contract.Errorf("race/lost", "x"), false},
		{"lost race by name", []string{"race/lost"}, contract.Errorf("race/lost", "x"), true},
		{"no error", []string{"class/switch"}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, parseSet(t, tt.set...).Matches(tt.err))
		})
	}
}

// ATT-009, ERR-006: a set can name each type of the catalogue; a named type
// matches unless its class is stop!.
func TestSwitchSetTakesEveryType(t *testing.T) {
	for _, row := range contract.Rows() {
		if strings.HasSuffix(row.Type, "/*") {
			continue
		}
		set := parseSet(t, row.Type)
		assert.Equal(t, row.Class != contract.ClassFinal, set.Matches(contract.Errorf(row.Type, "x")), row.Type)
	}
}

// ERR-011: an alias names its type.
func TestSwitchSetTakesAliases(t *testing.T) {
	for _, row := range contract.Rows() {
		for _, alias := range row.Aliases {
			assert.Equal(t, []string{row.Type}, parseSet(t, ":"+alias).Members())
		}
	}
	_, err := ParseSwitchSet([]string{"queue/empty"}) // dropped
	assert.ErrorContains(t, err, "there is no error type :queue/empty")
}

func TestSwitchSetRefusesUnknownMembers(t *testing.T) {
	for member, want := range map[string]string{
		"runtime/crashd":  "nearest is :runtime/crashed",
		"class/stop":      "not a class of a switch-on set",
		"class/stop!":     "not a class of a switch-on set",
		"class/*x":        "not a class of a switch-on set",
		"boom":            "there is no error type :boom",
		"/*":              "is not a namespace",
		"a b/*":           "is not a namespace",
		"a/b/*":           "is not a namespace",
		"demo/with blank": "is not the name of an error type",
		"":                "is not the name of an error type",
	} {
		_, err := ParseSwitchSet([]string{"runtime/crashed", member})
		assert.ErrorContains(t, err, want, member)
	}
}

// LM-001: the full set contains all types of three classes and no others.
func TestFullSwitchSet(t *testing.T) {
	full := FullSwitchSet()
	for _, r := range contract.Rows() {
		for _, s := range r.Sources.List() {
			e := contract.Errorf(r.Type, "x").WithSource(s)
			want := e.Class == contract.ClassRetry || e.Class == contract.ClassSwitch || e.Class == contract.ClassRepair
			assert.Equal(t, want, full.Matches(e), "%s from %s", r.Type, s)
		}
	}
	assert.True(t, full.Matches(contract.Errorf("demo/own", "x")))
	assert.Equal(t, []string{"class/repair", "class/retry", "class/switch"}, full.Members())
	assert.Equal(t, "#{:class/repair :class/retry :class/switch}", full.Value().String())
}

// ATT-002: parsing the members of a set returns the same set.
func TestSwitchSetLaws(t *testing.T) {
	pool := []string{"runtime/crashed", "runtime/*", "class/retry", "class/repair", "timeout/soft", "slot/unresolved", "demo/own"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) SwitchSet {
			if rapid.Bool().Draw(t, name+" absent") {
				return SwitchSet{}
			}
			s, err := ParseSwitchSet(rapid.SliceOf(rapid.SampledFrom(pool)).Draw(t, name))
			require.NoError(t, err)
			return s
		}
		a := draw("a")
		again, err := ParseSwitchSet(a.Members())
		require.NoError(t, err)
		assert.Equal(t, a.Members(), again.Members())
		for _, row := range contract.Rows() {
			e := contract.Errorf(row.Type, "x")
			assert.Equal(t, a.Matches(e), again.Matches(e), row.Type)
		}
	})
}

// ERR-020: members that can never match are reported.
func TestSwitchSetIdle(t *testing.T) {
	s := parseSet(t, "invalid-request", "auth/*", "runtime/*", "plan/*", "slot/unresolved", "demo/*", "class/switch", "timeout/hard")
	assert.Equal(t, []string{"auth/*", "invalid-request"}, s.Idle())
}
