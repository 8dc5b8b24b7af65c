package report

import (
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
)

// Validation is a summary of a validation.
type Validation struct {
	Valid    bool      `edn:"valid?"`
	Errors   []Problem `edn:"errors"`
	Warnings []Problem `edn:"warnings"`
}

// Problem is a finding of a validation.
type Problem struct {
	Code view.Keyword `edn:"code"`
	File string       `edn:"file,omitempty"`
	store.Place
	Message string `edn:"message"`
}

// ValidationOf returns the summary of a validation.
func ValidationOf(r *store.Report) *Validation {
	return &Validation{Valid: r.Valid, Errors: problems(r.Errors), Warnings: problems(r.Warnings)}
}

func problems(list []store.Finding) []Problem {
	out := make([]Problem, len(list))
	for i, f := range list {
		out[i] = Problem{Code: view.Keyword(f.Code), File: f.File, Message: f.Reason}
		if f.Path != "" {
			out[i].Place = store.PlaceOf(f.Path)
		}
	}
	return out
}

// listed returns a copy whose lists are not nil.
func (v *Validation) listed() *Validation {
	if v == nil {
		return nil
	}
	return &Validation{Valid: v.Valid, Errors: append([]Problem{}, v.Errors...), Warnings: append([]Problem{}, v.Warnings...)}
}
