package lock_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/lock"
)

func TestPolicy(t *testing.T) {
	for name, row := range map[string]struct {
		policy                  lock.Policy
		lenient, absent, listed bool // listed: an absent program may be started
		drift                   bool // drift is an error
	}{
		"checked":                   {policy: lock.Policy{Mode: lock.Checked}, lenient: true, listed: true},
		"checked, strict":           {policy: lock.Policy{Mode: lock.Checked, Strict: true}, absent: true},
		"checked, only listed ones": {policy: lock.Policy{Mode: lock.Checked, Listed: true}, lenient: true},
		"readonly":                  {policy: lock.Policy{Mode: lock.Readonly}, absent: true, drift: true},
		"shown":                     {policy: lock.Policy{Mode: lock.Shown}, lenient: true, listed: true},
		"shown, strict":             {policy: lock.Policy{Mode: lock.Shown, Strict: true}, lenient: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := row.policy
			assert.Equal(t, row.lenient, p.Lenient())
			assert.True(t, p.MayStart(lock.StateMatches))
			assert.Equal(t, row.listed, p.MayStart(lock.StateAbsent))
			assert.False(t, p.MayStart(lock.StateChanged))
			assert.Equal(t, row.absent, p.Refuses(lock.Absent))
			assert.Equal(t, row.drift, p.Refuses(lock.Drift))
			for _, grave := range []lock.Level{lock.Changed, lock.Escalation} {
				assert.Equal(t, p.Mode != lock.Shown, p.Refuses(grave))
			}
		})
	}
	ignored := lock.Policy{Strict: true}
	assert.True(t, ignored.MayStart(lock.StateChanged))
	assert.False(t, ignored.Refuses(lock.Changed))
}

func TestState(t *testing.T) {
	for _, row := range []struct {
		from  lock.State
		level lock.Level
		want  lock.State
	}{
		{lock.StateMatches, lock.Drift, lock.StateMatches},
		{lock.StateMatches, lock.Absent, lock.StateAbsent},
		{lock.StateMatches, lock.Escalation, lock.StateEscalated},
		{lock.StateAbsent, lock.Changed, lock.StateChanged},
		{lock.StateChanged, lock.Absent, lock.StateChanged},
		{lock.StateChanged, lock.Escalation, lock.StateChanged},
		{lock.StateEscalated, lock.Absent, lock.StateEscalated},
	} {
		assert.Equal(t, row.want, row.from.With(lock.Difference{Level: row.level}), "%s with level %d", row.from, row.level)
	}
}
