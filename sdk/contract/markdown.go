package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// Markdown renders the catalogue as the table of the documentation.
func Markdown() []byte {
	var b strings.Builder
	b.WriteString("# Error types\n\n" +
		"Generated from the catalogue of package contract; a test keeps this file current.\n\n" +
		"Class says what the evaluator does next: `retry` asks the same executor again, `switch` the next one, `repair` the same one with\n" +
		"the findings, `stop` ends the node unless `:switch-on` names the type, `stop!` always ends it. \"Again\" says whether the caller may\n" +
		"send the same request again with hope. Where two entries stand, the first is for errors that the request caused and the second for\n" +
		"all others. Exit is the exit code of a command that ends with the error.\n\n" +
		"| type | class | source | again | HTTP | exit | meaning | next step |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range catalogue.rows {
		fmt.Fprintf(&b, "| `:%s` | %s | %s | %s | %s | %s | %s | %s |\n", r.Type, r.classText(), r.sourceText(),
			r.both(func(o Outcome) string { return yesNo(o.Retryable) }), r.both(func(o Outcome) string { return status(o.HTTP) }), r.exitText(), r.Help, r.Hint)
	}
	b.WriteString("\n## Other names\n\n| name | stands for |\n|---|---|\n")
	for _, r := range catalogue.rows {
		for _, alias := range r.Aliases {
			fmt.Fprintf(&b, "| `:%s` | `:%s` |\n", alias, r.Type)
		}
	}
	return []byte(b.String())
}

// both shows what holds for the request, and what holds for other sources if
// that differs.
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
