package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// format is one of the three forms of output; its zero value is text.
type format string

const (
	formatText format = ""
	formatJSON format = "json"
	formatEDN  format = "edn"
)

// String returns the name of the form.
func (f format) String() string {
	if f == formatText {
		return "text"
	}
	return string(f)
}

// Set takes the name of a form.
func (f *format) Set(s string) error {
	switch s {
	case "text":
		*f = formatText
	case "json", "edn":
		*f = format(s)
	default:
		return fmt.Errorf("no form %q: expected text, json or edn", s)
	}
	return nil
}

// asked are the forms that the flags of a command line ask for, in their order.
type asked struct {
	format *format
	forms  []format
}

func (a *asked) ask(f format) {
	*a.format, a.forms = f, append(a.forms, f)
}

// one refuses a command line that asks for different forms.
func (a *asked) one() error {
	for _, f := range a.forms {
		if f != a.forms[0] {
			return usagef("the output has one form, and the command line asks for %s and %s", a.forms[0].String(), f.String())
		}
	}
	return nil
}

// outputFlag names a form.
type outputFlag struct{ *asked }

// String, Set and Type implement pflag.Value.
func (f outputFlag) String() string {
	if f.asked == nil {
		return ""
	}
	return f.format.String()
}

// Set takes the name of a form.
func (f outputFlag) Set(s string) error {
	var is format
	if err := is.Set(s); err != nil {
		return err
	}
	f.ask(is)
	return nil
}

// Type is shown in help texts.
func (f outputFlag) Type() string { return "form" }

// formatFlag is a switch that stands for one form.
type formatFlag struct {
	into *asked
	is   format
}

func (f formatFlag) String() string { return "false" }
func (f formatFlag) Set(s string) error {
	switch s {
	case "true":
		f.into.ask(f.is)
	case "false":
	default:
		return errors.New("expected true, false or no value")
	}
	return nil
}
func (f formatFlag) Type() string     { return "bool" }
func (f formatFlag) IsBoolFlag() bool { return true }

// askedForm is the form that arguments ask for, as far as it can be told
// without knowing whether the rest of them is right: what is wrong with them is
// told in that form too.
func askedForm(args []string) (f format) {
	verb := ""
	for i, arg := range args {
		name, value, given := strings.Cut(arg, "=")
		if verb == "" && !strings.HasPrefix(arg, "-") {
			verb = arg
		}
		switch name {
		case "--":
			return f
		case "--json", "--edn":
			if verb == "conform" {
				continue // there --json names a file
			}
			if !given || value == "true" {
				f = format(name[2:])
			}
		case "-o", "--output":
			if !given && i+1 < len(args) {
				value = args[i+1]
			}
			_ = f.Set(value) // a form that does not exist is told as text
		}
	}
	return f
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	return append(names, "help")
}

// value prints one value on a line of its own as JSON or EDN. In text form it
// is laid out for people.
func (c *command) value(w io.Writer, v edn.Value) error {
	text, err := c.render(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, shown(w, text))
	return err
}

func (c *command) render(v edn.Value) (string, error) {
	switch c.format {
	case formatJSON:
		b, err := edn.WriteJSON(v)
		return string(b), err
	case formatEDN:
		return v.String(), nil
	}
	return pretty(v), nil
}

// envelopeKeys come first where they occur.
var envelopeKeys = []string{"proto", "trace", "task", "input", "result", "error"}

func pretty(v edn.Value) string {
	first := make([]edn.Value, len(envelopeKeys))
	for i, k := range envelopeKeys {
		first[i] = edn.K(k)
	}
	return strings.TrimRight(string(edn.WritePretty(v, edn.PrettyOptions{First: first})), "\n")
}

// printf writes text for people to standard error.
func (c *command) printf(format string, args ...any) {
	_, _ = io.WriteString(c.env.Stderr, shown(c.env.Stderr, fmt.Sprintf(format, args...)))
}

// problem prints an error in the chosen form on standard error.
func (c *command) problem(err error) {
	e := contract.AsError(err)
	var syntax *edn.SyntaxError
	isSyntax := errors.As(err, &syntax)
	if isSyntax && e.Type == "plan/invalid" && c.format == formatText && c.tellSyntax(c.env.Stderr, syntax) == nil {
		return
	}
	if c.format != formatText {
		if isSyntax && syntax.Source != "" {
			e = e.WithWhere("file", edn.Text(syntax.Source))
		}
		if c.value(c.env.Stderr, edn.MustMap(edn.K("error"), e.Value())) == nil {
			return
		}
	}
	text := contract.SourceText{Brief: !c.verbose}
	if isSyntax {
		text.Name = syntax.Source
	}
	c.printf("%s\n", e.Text(text))
}

// plain is a value as a person writes it: strings and keywords without marks.
func plain(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	return v.String()
}

func cutTo(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most]) + "…"
}

// tableWidth is how many columns of a screen a table takes at most, and lastWidth
// what the last of its own columns gets of them at least.
const tableWidth, lastWidth = 100, 30

// table aligns rows under their headings. What does not fit beside the others
// stands below its row: the text of the last column in lines of its own, further
// columns by their names. Words are not cut.
func table(w io.Writer, head []string, rows [][]string) error {
	width := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	shown, last := 0, 0 // columns side by side, and where the last of them begins
	for at := 0; shown < len(head); shown++ {
		need := width[shown]
		if shown == len(head)-1 {
			need = min(need, lastWidth)
		}
		if shown > 0 && at+need > tableWidth {
			break
		}
		last, at = at, at+width[shown]+2
	}
	var out strings.Builder
	for k, row := range append([][]string{head}, rows...) {
		for i, cell := range row[:shown-1] {
			out.WriteString(cell + strings.Repeat(" ", width[i]-len([]rune(cell))+2))
		}
		wrap(&out, row[shown-1], last, last)
		if k == 0 {
			continue
		}
		var more []string
		for i, cell := range row[shown:] {
			if cell != "" && cell != "-" {
				more = append(more, head[shown+i]+" "+cell)
			}
		}
		if len(more) > 0 {
			out.WriteString("    ")
			wrap(&out, strings.Join(more, "; "), 4, 4)
		}
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// wrap writes words in lines of a table, from a column on.
func wrap(out *strings.Builder, text string, at, indent int) {
	for i, word := range strings.Split(text, " ") {
		if n := len([]rune(word)); i > 0 && at+1+n > tableWidth {
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		} else if i > 0 {
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += len([]rune(word))
	}
	out.WriteByte('\n')
}

// keywords turns names into a vector of keywords.
func keywords(names []string) edn.Value {
	vs := make([]edn.Value, 0, len(names))
	for _, n := range slices.Sorted(slices.Values(names)) {
		vs = append(vs, edn.K(n))
	}
	return edn.Vector(vs...)
}
