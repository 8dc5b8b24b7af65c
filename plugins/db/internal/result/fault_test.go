package result

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Each failure of a database that the caller or the operator can end has a hint, and a
// call with an unknown outcome has another than one that can be sent again.
func TestFaultsHaveHints(t *testing.T) {
	tool, _ := effects.ToolNamed("db/exec")
	for kind, typ := range map[Kind]string{
		Invalid: "effects/invalid-input", NotAllowed: "effects/scope-denied", Busy: "effects/runtime-failed",
		Lost: "effects/runtime-failed", Missing: "effects/runtime-missing", Late: "timeout/hard",
		Unheld: "effects/not-enforceable",
	} {
		e := Faultf(kind, "it failed").Error(tool, "main")
		assert.ErrorIs(t, e, contract.OfType(typ))
		assert.NotEmpty(t, e.Hint, typ)
		unsure := (&Fault{Kind: kind, Message: "it failed", Unsure: true}).Error(tool, "main")
		assert.NotEqual(t, e.Hint, unsure.Hint, typ)
	}
}
