package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/edn"
)

// The text about a repair to come is the question whether to do it: only the dry run adds
// that nothing was done.
func TestRepairText(t *testing.T) {
	v := edn.MustRead(`{:damaged? true :dry-run? true :runs 2
		:damaged [{:run "run_1" :records/kept 3 :records/cut 1 :values/lost [] :status :suspended :damage {:what "a changed record"}}]}`)
	text := repairText(v)
	assert.Contains(t, text, "run_1")
	assert.NotContains(t, text, "nothing was done")
	assert.NotRegexp(t, `\n$`, text)
}
