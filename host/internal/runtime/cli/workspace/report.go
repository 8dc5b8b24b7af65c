package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/sdk/edn"
)

// sectionOrder is the order of the sections of a report; others follow by name.
var sectionOrder = []string{
	"coverage", "states", "origins", "authored-stale", "models", "directories", "validation", "fail-on",
}

func reportText(p *page, out edn.Value) {
	p.position(out)
	var names []string
	for k := range out.Entries() {
		switch key := plain(k); key {
		case "root", "seq", "text", "format":
		default:
			names = append(names, key)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		i, j := slices.Index(sectionOrder, a), slices.Index(sectionOrder, b)
		switch {
		case i >= 0 && j >= 0:
			return i - j
		case i >= 0:
			return -1
		case j >= 0:
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, n := range names {
		p.section(n, out.Key(n))
	}
}

// section writes a part of a report: a list of maps as a table, a map as fields, other lists with a
// mark, other values after the name.
func (p *page) section(title string, v edn.Value) {
	first, _ := v.Nth(0)
	switch {
	case v.IsNil():
	case title == "fail-on" && v.Key("conditions").Len() > 0:
		p.heading(title)
		p.conditions(v.Key("conditions"))
	case v.IsMap():
		p.heading(title)
		for k, x := range v.Entries() {
			p.field("  "+plain(k), words(x))
		}
	case first.IsMap():
		p.heading(title)
		p.rows(v)
	case v.IsVector() && v.Len() > 0:
		p.heading(title)
		p.list("-", v, 0)
	case v.IsVector():
		p.heading(title)
		p.line("  none")
	default:
		p.field(title, words(v))
	}
}

// conditions writes the conditions of --fail-on as a table, and below it the paths that meet each
// of them.
func (p *page) conditions(list edn.Value) {
	var rows [][]string
	for c := range list.Elems() {
		met := "no"
		if c.Key("met?").Truthy() {
			met = "yes"
		}
		count, percent := counted(number(c.Key("count")), ""), dash(words(c.Key("pct")))
		rows = append(rows, []string{plain(c.Key("condition")), met, count, percent})
	}
	p.table([]string{"condition", "met", "count", "pct"}, rows)
	for c := range list.Elems() {
		if paths := c.Key("paths"); paths.Len() > 0 {
			p.line("")
			p.line("%s", plain(c.Key("condition")))
			p.list("-", paths, number(c.Key("count")))
		}
	}
}

func (p *page) heading(title string) {
	p.line("")
	if title != "" {
		p.line("%s", strings.ReplaceAll(title, "-", " "))
	}
}

// leading are the first columns in a table of maps.
var leading = []string{"path", "frame/type", "agent/id", "name"}

// rows writes a list of maps as a table with a column for each of their keys.
func (p *page) rows(list edn.Value) {
	var columns []string
	for row := range list.Elems() {
		for k := range row.Entries() {
			if key := strings.TrimSuffix(plain(k), "/b64"); !slices.Contains(columns, key) {
				columns = append(columns, key)
			}
		}
	}
	slices.SortStableFunc(columns, func(a, b string) int {
		i, j := slices.Index(leading, a), slices.Index(leading, b)
		switch {
		case i >= 0 && (j < 0 || i < j):
			return -1
		case j >= 0 && (i < 0 || j < i):
			return 1
		}
		return strings.Compare(a, b)
	})
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(c, "frame/"), "agent/"), "?")
		if c == "agent/id" {
			head[i] = "agent"
		}
	}
	var rows [][]string
	for row := range list.Elems() {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = dash(p.cell(row, c))
		}
		rows = append(rows, cells)
	}
	p.table(head, rows)
}

func (p *page) cell(row edn.Value, key string) string {
	v := row.Key(key)
	switch n, isInt := v.AsInt(); {
	case key == "path" || key == "name":
		return encoded(row, key)
	case isInt && key == "at":
		return time.Unix(0, n).UTC().Format("2006-01-02 15:04")
	case isInt && strings.HasSuffix(key, "bytes"):
		return size(int(n))
	case isInt:
		return counted(int(n), "")
	case wholeID.MatchString(plain(v)):
		return p.id(v)
	}
	return words(v)
}

// report prints a report in the requested form.
func report(in *invocation) error {
	c, err := in.open()
	if err != nil {
		return err
	}
	defer c.close()
	out, err := c.call(in.input)
	if err != nil {
		return in.failed(err)
	}
	c.progress.end()
	switch {
	case in.form != "":
		text, ok := out.Key("text").AsString()
		if !ok {
			return fmt.Errorf("the capability gave no report as %s", in.form)
		}
		err = in.write([]byte(strings.TrimRight(text, "\n") + "\n"))
	case in.set("template"):
		err = in.templated(out)
	default:
		err = in.print(out)
	}
	if err == nil && in.negative(in, out) {
		return in.Quiet(exit.Negative)
	}
	return err
}

// templated writes a report with the template in a file, whose data is the report as JSON.
func (in *invocation) templated(out edn.Value) error {
	text, err := in.ReadFile(in.first("template"), edn.Body.Bytes)
	if err != nil {
		return err
	}
	t, err := template.New(in.first("template")).Parse(string(text))
	if err != nil {
		return in.usagef("--template: %w", err)
	}
	b, err := edn.WriteJSON(out)
	if err != nil {
		return err
	}
	var data any
	if err := json.Unmarshal(b, &data); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := t.Execute(&page, data); err != nil {
		return in.usagef("--template: %w", err)
	}
	return in.write(page.Bytes())
}

// failedOn reports whether a condition of --fail-on was met.
func failedOn(out edn.Value) bool {
	return out.Key("fail-on").Key("met?").Truthy()
}
