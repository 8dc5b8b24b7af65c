package decode

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// WIRE-005: version constraints.
func TestConstraints(t *testing.T) {
	for _, row := range []struct {
		constraint, version string
		want                bool
	}{
		{">= 0.4, < 1.0", "0.4.0", true}, {">= 0.4, < 1.0", "1.0.0", false}, {">= 0.4, < 1.0", "0.3.9", false},
		{"1.2.3", "v1.2.3", true}, {"= 1.2", "1.2.1", false}, {"!= 1.2.0", "1.2.0", false}, {"> 1", "1.0.1", true}, {"<= 2", "2.0.0", true},
		{">= 1.0.0", "1.0.0-rc1", false}, {"> 1.0.0-rc1", "1.0.0-rc2", true}, {">= 1.0", "1.0.0+build", true},
	} {
		c, err := ParseConstraint(row.constraint)
		require.NoError(t, err)
		v, ok := ParseVersion(row.version)
		require.True(t, ok)
		assert.Equal(t, row.want, c.Allows(v), "%s allows %s", row.constraint, row.version)
	}
	for _, bad := range []string{"", ">=", "1.x", "1,,2", "~> 1", "1.2.3.4"} {
		_, err := ParseConstraint(bad)
		assert.Error(t, err, bad)
	}
}
