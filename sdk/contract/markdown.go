package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// Markdown renders the catalogue as the table of ERRORS.md.
func Markdown() []byte {
	var b strings.Builder
	b.WriteString("# Error types\n\n" +
		"Generated from the catalogue of package contract; a test keeps this file current.\n\n" +
		"Class determines what the evaluator does next: `retry` calls the same executor again, `switch` the next one,\n" +
		"`repair` the same one with the findings, `stop` ends the node unless `:switch-on` names the type, `stop!` always\n" +
		"ends it. \"Again\" is yes if sending the same request again can succeed. Of two entries, the first is for errors\n" +
		"that the request caused and the second for all others. Exit is the exit code of a command that ends with the\n" +
		"error.\n\n" +
		"| type | class | source | again | HTTP | exit | meaning | next step |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range catalogue.rows {
		fmt.Fprintf(&b, "| `:%s` | %s | %s | %s | %s | %s | %s | %s |\n", r.Type, r.classText(), r.sourceText(),
			r.both(func(o Outcome) string { return yesNo(o.Retryable) }),
			r.both(func(o Outcome) string { return status(o.HTTP) }), r.exitText(), r.Help, r.Hint)
	}
	b.WriteString("\n## Other names\n\n| name | stands for |\n|---|---|\n")
	for _, r := range catalogue.rows {
		for _, alias := range r.Aliases {
			fmt.Fprintf(&b, "| `:%s` | `:%s` |\n", alias, r.Type)
		}
	}
	return []byte(b.String())
}

// both shows the outcome for source request and, if it differs, the outcome for
// other sources.
func (r Row) both(show func(Outcome) string) string {
	first := show(Outcome{r.Class, r.Retryable, r.HTTP})
	if r.elsewhere == nil || show(*r.elsewhere) == first {
		return first
	}
	return first + " · " + show(*r.elsewhere)
}

func (r Row) classText() string {
	text := r.both(func(o Outcome) string { return o.Class.String() })
	if r.alternative != ClassNone {
		text += " or " + r.alternative.String()
	}
	return text
}

func (r Row) sourceText() string {
	if r.AsCause {
		return "as cause"
	}
	names := []string{r.Source.String()}
	for _, s := range r.Sources.List() {
		if s != r.Source {
			names = append(names, s.String())
		}
	}
	return strings.Join(names, ", ")
}

func (r Row) exitText() string {
	if r.HTTP == 0 {
		return "-"
	}
	code := func(s Source) string { return strconv.Itoa((&Error{Type: r.Type, Source: s}).ExitCode()) }
	first, second := code(SourceRequest), code(SourcePlugin)
	if first == second {
		return first
	}
	return first + " · " + second
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func status(code int) string {
	if code == 0 {
		return "-"
	}
	return strconv.Itoa(code)
}
