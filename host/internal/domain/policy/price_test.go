package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// BUD-002: the output of a call is bounded by the lower of two limits, and never by so many
// tokens that their price overflows; what the model may use for reasoning is added.
func TestMostOut(t *testing.T) {
	for _, row := range []struct {
		limit, headroom int
		budget          string
		want            int64
		ok              bool
	}{
		{0, 5, `{}`, 0, false},
		{1, 0, `{}`, 1, true},
		{100, 5, `{}`, 105, true},
		{100, 5, `{:max-tokens 7}`, 12, true},
		{100, 5, `{:max-tokens 700}`, 105, true},
		{0, 5, `{:max-tokens 7}`, 12, true},
		{0, 0, `{:max-tokens 0}`, 0, true},
		{0, 0, `{:max-tokens 9223372036854775807}`, 1 << 43, true},
		{1 << 50, 0, `{}`, 1 << 43, true},
	} {
		c := &registry.Capability{}
		c.Limits.MaxTokens, c.Limits.HeadroomTokens = row.limit, row.headroom
		n, ok := policy.MostOut(c, edn.MustRead(row.budget))
		assert.Equal(t, row.ok, ok, "%+v", row)
		assert.Equal(t, row.want, n, "%+v", row)
	}
}
