package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/contract"
)

// JRN-041: what an intent says about unknown outcomes comes first, then the most careful
// of what the scopes of the effects say; effects that only read do not count.
func TestUnknownOutcomes(t *testing.T) {
	with := func(intent string, effects ...string) string {
		e := &policy.Effects{OnUnknown: map[string]string{
			"fs/write": "retry", "process/run": "assume-done", "net/http": "fail", "db/write": "suspend", "fs/read": "fail",
		}}
		c := &registry.Capability{Capability: contract.Capability{Effects: effects}}
		var in *registry.Intent
		if intent != "tool" {
			in = &registry.Intent{OnUnknown: intent}
		}
		return e.Grant(policy.Caller{}).OnUnknown(in, c)
	}
	assert.Equal(t, "retry", with("", "fs/write"))
	assert.Equal(t, "retry", with("tool", "fs/write"))
	assert.Equal(t, "assume-done", with("", "fs/write", "process/run"))
	assert.Equal(t, "fail", with("", "process/run", "net/http"))
	assert.Equal(t, "suspend", with("", "net/http", "db/write"))
	assert.Equal(t, "retry", with("", "fs/write", "fs/read"))
	assert.Equal(t, "suspend", with("", "fs/read"))
	assert.Equal(t, "fail", with("fail", "db/write"))
	assert.Equal(t, "suspend", with("suspend", "fs/write"))
	var none *policy.Grant
	assert.Equal(t, "suspend", none.OnUnknown(nil, nil))
}

// Without a grant, without effects or without a capability a run waits for a decision.
func TestUnknownOutcomesWithoutEffects(t *testing.T) {
	c := &registry.Capability{Capability: contract.Capability{Effects: []string{"fs/write"}}}
	full := (&policy.Effects{OnUnknown: map[string]string{"fs/write": "retry"}}).Grant(policy.Caller{})
	assert.Equal(t, registry.UnknownSuspends, (*policy.Grant)(nil).OnUnknown(nil, c))
	assert.Equal(t, registry.UnknownSuspends, (&policy.Grant{}).OnUnknown(nil, c))
	assert.Equal(t, registry.UnknownSuspends, full.OnUnknown(nil, nil))
}
