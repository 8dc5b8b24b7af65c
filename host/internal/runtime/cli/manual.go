package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualCommand writes manual pages, which are generated from the help of the commands (CLI-006).
func (c *command) manualCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "manual [COMMAND]...",
		Short: "print the manual page of a command",
		Long: "manual prints a manual page in the form that the program man reads. Its content is that of --help. With --dir it\n" +
			"writes the pages of all commands into a directory, which is that of section 1, such as share/man/man1.",
		Example: "  ferment manual admin backup\n  ferment manual --dir man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir != "" {
				if len(args) > 0 {
					return usagef("--dir writes the pages of all commands: leave %q out", args[0])
				}
				return c.writePages(cmd.Root(), c.absolute(dir))
			}
			verb, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("%q is not a command", strings.Join(args, " "))
			}
			_, err = c.env.Stdout.Write(c.page(verb))
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory that gets the pages of all commands")
	return cmd
}

// writePages writes a page for each command below cmd.
func (c *command) writePages(cmd *cobra.Command, dir string) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	name := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(name, c.page(cmd), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := c.writePages(sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns the manual page of a command.
func (c *command) page(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"ferment %s\" \"Ferment\"\n", roff(strings.ToUpper(pageName(cmd))), roff(c.env.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	if cmd.Runnable() && cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n.B %s\n", roff(cmd.CommandPath()+" COMMAND"))
	}
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, firstOf(cmd.Long, cmd.Short))
	var subs []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			subs = append(subs, sub)
		}
	}
	if len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	options(&b, "OPTIONS", cmd.NonInheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n")
		for line := range strings.Lines(cmd.Example) {
			b.WriteString(roff(strings.TrimSpace(line)) + "\n")
		}
		b.WriteString(".fi\n")
	}
	if !cmd.HasParent() {
		b.WriteString(".SH EXIT STATUS\n")
		for _, row := range exitCodes {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", row.code, roff(row.meaning))
		}
		return b.Bytes()
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)", roff(pageName(cmd.Parent())))
	if cmd.Parent().HasParent() {
		b.WriteString(" ,\n.BR ferment (1)")
	}
	b.WriteString("\n")
	return b.Bytes()
}

// exitCodes are the exit codes of all commands except for serve, which has its own.
var exitCodes = []struct{ code, meaning string }{
	{"0", "done"},
	{"1", "negative result: a run failed, things differ, a configuration or plan is wrong"},
	{"2", "wrong usage"},
	{"3", "the environment: a file cannot be read, no daemon runs, it is overloaded"},
	{"4", "denied"},
	{"5", "not found"},
	{"6", "conflict, or the run is suspended"},
	{"7", "deadline passed, or canceled"},
	{"130", "interrupted"},
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// paragraphs writes a help text. A paragraph with a line that starts with a blank is an example and
// is not changed.
func paragraphs(b *bytes.Buffer, text string) {
	for i, p := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		sample := strings.Contains("\n"+p, "\n ")
		if sample {
			b.WriteString(".nf\n")
		}
		for line := range strings.Lines(p) {
			b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
		}
		if sample {
			b.WriteString(".fi\n")
		}
	}
}

// options writes a section with flags, if there are any.
func options(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	var rows []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		rows = append(rows, fmt.Sprintf(".TP\n.B %s\n%s\n", roff(name), roff(usage)))
	})
	if len(rows) > 0 {
		fmt.Fprintf(b, ".SH %s\n", title)
		_, _ = io.WriteString(b, strings.Join(rows, ""))
	}
}

// roff escapes a line of text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
