//go:build slow

package view_test

import (
	"testing"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each changed attribute is reported with its reload class in the specification
// (HCL-044).
func TestCompareEveryAttribute(t *testing.T) {
	seen := 0
	for _, w := range configtest.EveryAttribute() {
		r, isReserved := language.ReservedAt(w.Path)
		if isReserved && !r.Partly() || w.Chain[0].Name == "include" || w.Path == "ferment.profile" {
			continue
		}
		good, _, _ := configtest.ValuesOf(w.Attr.Type)
		for i, v := range good {
			if i == 0 {
				continue
			}
			a, ds := configtest.Load(t, w.File(good[0]))
			b, es := configtest.Load(t, w.File(v))
			if ds.HasErrors() || es.HasErrors() {
				continue
			}
			d := view.Compare(a, b)
			require.NotEmpty(t, d.Changes, "%s = %s, %s", w.Path, good[0], v)
			assert.Equal(t, w.Attr.Reload, d.Changes[0].Reload, w.Path)
			assert.Equal(t, w.Attr.Name, d.Changes[0].Path[len(d.Changes[0].Path)-1], w.Path)
			seen++
			break
		}
	}
	assert.Greater(t, seen, 40)
}
