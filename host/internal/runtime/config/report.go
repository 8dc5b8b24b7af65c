package config

import slashpath "path"

// Report returns a report with at most max diagnostics and MaxShownPerFile per file;
// 0: all. The counts include the omitted ones.
func (c *Config) Report(max int) Report {
	r := newReport(c.Diagnostics, c.dropped, len(c.Files), max)
	for i := range r.Shown {
		r.Shown[i] = c.Located(r.Shown[i])
	}
	return r
}

// Located returns the diagnostic with file names relative to the working directory
// of the load.
func (c *Config) Located(d Diagnostic) Diagnostic {
	if c.ahead == "" {
		return d
	}
	d.Range = c.seen(d.Range)
	related := make([]Related, len(d.Related))
	for i, r := range d.Related {
		related[i] = Related{Range: c.seen(r.Range), Message: r.Message}
	}
	d.Related = related
	return d
}

func (c *Config) seen(r *Range) *Range {
	if r == nil {
		return nil
	}
	out := *r
	out.File = slashpath.Join(c.ahead, r.File)
	return &out
}
