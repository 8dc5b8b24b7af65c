package config

import (
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"

	slashpath "path"
)

// Report returns a report with at most max diagnostics and diag.MaxShownPerFile per file; max 0
// includes all. The counts include the omitted ones.
func (c *Config) Report(max int) diag.Report {
	r := diag.NewReport(c.Diagnostics, c.dropped, len(c.Files), max)
	for i := range r.Shown {
		r.Shown[i] = c.Located(r.Shown[i])
	}
	return r
}

// Located returns a copy of the diagnostic with file names relative to the working directory of the
// load.
func (c *Config) Located(d diag.Diagnostic) diag.Diagnostic {
	if c.ahead == "" {
		return d
	}
	d.Range = c.Place(d.Range)
	related := make([]diag.Related, len(d.Related))
	for i, r := range d.Related {
		related[i] = diag.Related{Range: c.Place(r.Range), Message: r.Message}
	}
	d.Related = related
	return d
}

// Place returns a copy of a range with the file relative to the working directory of the load; nil
// for nil.
func (c *Config) Place(r *diag.Range) *diag.Range {
	if r == nil {
		return nil
	}
	out := *r
	out.File = slashpath.Join(c.ahead, r.File)
	return &out
}
