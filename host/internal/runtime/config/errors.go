package config

import (
	"errors"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// functionError is an error of a function of the language with its own diagnostic
// type.
type functionError struct {
	typ     string
	message string
	hint    string
	nearest string
}

func (e *functionError) Error() string { return e.message }

func asFunctionError(d *hcl.Diagnostic) (*functionError, bool) {
	extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d)
	if !ok {
		return nil, false
	}
	var fe *functionError
	if err := extra.FunctionCallError(); err != nil && errors.As(err, &fe) {
		return fe, true
	}
	return nil, false
}
