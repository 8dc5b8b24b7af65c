package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
)

// Markdown returns the report as a document.
func (out *Report) Markdown() string {
	m := &markdown{}
	m.line("# Context report\n\n%s.", nodesText(out.Nodes))
	if v := out.FailOn; v != nil {
		m.table("Conditions", []string{"Condition", "Met", "Count", "First paths"}, len(v.Conditions), func(i int) []string {
			c := v.Conditions[i]
			var paths []string
			for _, p := range c.Paths[:min(len(c.Paths), 5)] {
				paths = append(paths, code(store.Shown(string(p))))
			}
			return []string{code(c.Condition), map[bool]string{true: "**yes**", false: "no"}[c.Met], strconv.Itoa(c.Count), strings.Join(paths, ", ")}
		})
	}
	m.table("Coverage", []string{"Type", "On", "With", "Without", "Fresh", "%"}, len(out.Coverage), func(i int) []string {
		c := out.Coverage[i]
		return []string{
			code(c.Type), strings.Join(c.Kinds, ", "), strconv.Itoa(c.With), strconv.Itoa(c.Without), strconv.Itoa(c.Fresh),
			strconv.FormatFloat(c.Percent, 'f', 1, 64),
		}
	})
	typeCounts := func(title string, list []TypeCounts) {
		m.table(title, []string{"Type", "Heads"}, len(list), func(i int) []string {
			return []string{code(list[i].Type), countsText(list[i].Heads)}
		})
	}
	typeCounts("States", out.States)
	typeCounts("Origins", out.Origins)
	m.table("Authored frames about an earlier state", []string{"Path", "Type", "Agent"}, len(out.AuthoredStale), func(i int) []string {
		h := out.AuthoredStale[i]
		return []string{code(store.Shown(h.path)), code(h.Type), code(h.Agent)}
	})
	m.table("Models", []string{"Provider", "Model", "Frames", "Tokens in", "Tokens out", "Cost (USD)"}, len(out.Models), func(i int) []string {
		u := out.Models[i]
		cost := ""
		if !u.Cost.IsNil() {
			cost = strings.TrimSuffix(u.Cost.String(), "M")
		}
		return []string{plain(u.Provider), plain(u.Model), strconv.Itoa(u.Frames), strconv.FormatInt(u.TokensIn, 10), strconv.FormatInt(u.TokensOut, 10), cost}
	})
	m.table("Largest directories", []string{"Path", "Bytes", "Files", "Directories"}, len(out.Directories), func(i int) []string {
		d := out.Directories[i]
		return []string{code(store.Shown(d.path)), strconv.FormatInt(d.Bytes, 10), strconv.Itoa(d.Files), strconv.Itoa(d.Dirs)}
	})
	m.validation(out.Validation)
	return m.String()
}

type markdown struct{ strings.Builder }

func (m *markdown) line(format string, args ...any) { _, _ = fmt.Fprintf(m, format+"\n", args...) }

// table writes a section with a table, nothing if it has no rows.
func (m *markdown) table(title string, columns []string, rows int, row func(int) []string) {
	if rows == 0 {
		return
	}
	m.line("\n## %s\n", title)
	m.line("| %s |", strings.Join(columns, " | "))
	m.line("|%s", strings.Repeat(" --- |", len(columns)))
	for i := range rows {
		cells := row(i)
		for j := range cells {
			cells[j] = strings.ReplaceAll(cells[j], "|", `\|`)
		}
		m.line("| %s |", strings.Join(cells, " | "))
	}
}

func (m *markdown) validation(v *Validation) {
	if v == nil {
		return
	}
	m.line("\n## Validation\n")
	verdict := map[bool]string{true: "Valid", false: "**Invalid**"}[v.Valid]
	m.line("%s, %s, %s.\n", verdict, plural(len(v.Errors), "error"), plural(len(v.Warnings), "warning"))
	for _, list := range [][]Problem{v.Errors, v.Warnings} {
		for _, p := range list {
			m.line("- %s %s: %s", code(string(p.Code)), code(cmp.Or(p.Text, p.Raw, p.File)), plain(p.Message))
		}
	}
}

// code quotes text so that nothing in it is markup.
func code(text string) string {
	if text == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fence + text + fence
}

// plain escapes text so that it contains no markup of Markdown or HTML.
func plain(text string) string {
	return strings.NewReplacer("\\", `\\`, "<", "&lt;", "&", "&amp;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "\n", " ").Replace(text)
}

func countsText(c Counts) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%d %s", c[name], name))
	}
	return strings.Join(parts, ", ")
}

// nodesText returns the numbers of nodes by kind in words.
func nodesText(c Counts) string {
	parts := []string{plural(c["file"], "file"), fmt.Sprintf("%d directories", c["dir"])}
	if c["dir"] == 1 {
		parts[1] = "1 directory"
	}
	if c["link"] > 0 {
		parts = append(parts, plural(c["link"], "link"))
	}
	if c["repo"] == 1 {
		parts = append(parts, "1 nested repository")
	} else if c["repo"] > 0 {
		parts = append(parts, fmt.Sprintf("%d nested repositories", c["repo"]))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
