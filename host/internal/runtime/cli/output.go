package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// format is an output format; the zero value means text.
type format string

const (
	formatText format = ""
	formatJSON format = "json"
	formatEDN  format = "edn"
)

// String returns the name of the format.
func (f format) String() string {
	if f == formatText {
		return "text"
	}
	return string(f)
}

// Set parses the name of a format.
func (f *format) Set(s string) error {
	switch s {
	case "text":
		*f = formatText
	case "json", "edn":
		*f = format(s)
	default:
		return fmt.Errorf("unknown output format %q: expected text, json or edn", s)
	}
	return nil
}

// asked has the formats in the flags of a command line, in order.
type asked struct {
	format *format
	forms  []format
}

func (a *asked) ask(f format) {
	*a.format, a.forms = f, append(a.forms, f)
}

// one returns an error for a command line with different formats.
func (a *asked) one() error {
	for _, f := range a.forms {
		if f != a.forms[0] {
			return usagef("conflicting output formats: %s and %s", a.forms[0].String(), f.String())
		}
	}
	return nil
}

// outputFlag is the flag --output.
type outputFlag struct{ *asked }

// String implements pflag.Value.
func (f outputFlag) String() string {
	if f.asked == nil {
		return ""
	}
	return f.format.String()
}

// Set implements pflag.Value.
func (f outputFlag) Set(s string) error {
	var is format
	if err := is.Set(s); err != nil {
		return err
	}
	f.ask(is)
	return nil
}

// Type implements pflag.Value; help texts show it.
func (f outputFlag) Type() string { return "form" }

// formatFlag is a boolean flag for one format.
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

// askedForm returns the format in the arguments without parsing the rest, because errors in the
// arguments are reported in that format too.
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
				continue // here --json names a file
			}
			if !given || value == "true" {
				f = format(name[2:])
			}
		case "-o", "--output":
			if !given && i+1 < len(args) {
				value = args[i+1]
			}
			_ = f.Set(value) // an unknown format is reported as text
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

// value prints one value on its own line as JSON or EDN. In text format it is indented.
func (c *command) value(w io.Writer, v edn.Value) error {
	text, err := c.render(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, display.Shown(w, text))
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

// envelopeKeys are printed first.
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
	_, _ = io.WriteString(c.env.Stderr, display.Shown(c.env.Stderr, fmt.Sprintf(format, args...)))
}

// warn prints a warning for people to standard error.
func (c *command) warn(format string, args ...any) {
	c.printf("%s\n", diag.WrapLabeled("warning: ", fmt.Sprintf(format, args...)))
}

// problem prints an error to standard error in the selected format.
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
	c.printf("%s\n", diag.WrapError(e.Text(text)))
}

// plain returns a value as text for people: strings and keywords without quotes and colons; empty
// for nil.
func plain(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
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

// keywords returns names as a vector of keywords.
func keywords(names []string) edn.Value {
	vs := make([]edn.Value, 0, len(names))
	for _, n := range slices.Sorted(slices.Values(names)) {
		vs = append(vs, edn.K(n))
	}
	return edn.Vector(vs...)
}
