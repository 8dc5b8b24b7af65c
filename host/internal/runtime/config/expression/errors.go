package expression

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// FunctionError is an error of a function of the language that has its own diagnostic type.
type FunctionError struct {
	Type    string
	Message string
	Hint    string
	nearest string
}

// Error implements error.
func (e *FunctionError) Error() string { return e.Message }

func asFunctionError(d *hcl.Diagnostic) (*FunctionError, bool) {
	extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d)
	if !ok {
		return nil, false
	}
	var fe *FunctionError
	if err := extra.FunctionCallError(); err != nil && errors.As(err, &fe) {
		return fe, true
	}
	return nil, false
}
