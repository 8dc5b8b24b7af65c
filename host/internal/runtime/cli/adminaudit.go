package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// auditPage is the maximum number of rows in a response, auditWait the time for which a request
// waits for a row.
const (
	auditPage = 1000
	auditWait = 20 * time.Second
)

func (c *command) auditCommand() *cobra.Command {
	var after, until string
	var follow bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "print the audit trail of the daemon",
		Long: "audit prints who did what, one row per line, oldest first: acts that ended or were rejected, logins and denied\n" +
			"requests, actions on sessions and of operators, reloads. The trail is on disk and has what store.retain keeps.\n" +
			"The cursor of a row is host. and its number :seq; --after prints the rows behind a cursor.",
		Example: "  ferment admin audit\n  ferment admin audit --after host.1 --json\n  ferment admin audit --until 2026-11-20T09:00:00Z --edn",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := actionOf("audit", edn.K("limit"), edn.Int(auditPage))
			if until != "" {
				at, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return usagef("--until %s: expected a time such as 2026-11-20T09:00:00Z", until)
				}
				if follow {
					return usagef("--until and --follow exclude each other")
				}
				action = action.AssocKey("until", edn.Inst(at.UTC()))
			}
			return c.printTrail(cmd.Context(), action, after, follow)
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "print only rows after this cursor")
	cmd.Flags().StringVar(&until, "until", "", "print only rows before this time, in RFC 3339")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "also print new rows, until interrupted")
	return cmd
}

// printTrail prints the pages of the trail after a cursor.
func (c *command) printTrail(ctx context.Context, action edn.Value, after string, follow bool) error {
	for {
		if after != "" {
			action = action.AssocKey("after", edn.Text(after))
		}
		page, err := c.order(ctx, action)
		if ctx.Err() != nil && follow {
			return quietError{exit.Interrupted} // the usual end of --follow
		}
		if err != nil {
			return err
		}
		for row := range page.Key("rows").Elems() {
			switch c.format {
			case formatText:
				_, err = fmt.Fprintln(c.env.Stdout, auditLine(row))
			case formatJSON:
				err = c.value(c.env.Stdout, httpapi.InJSON(row))
			default:
				err = c.value(c.env.Stdout, row)
			}
			if err != nil {
				return err
			}
		}
		after = plain(page.Key("cursor"))
		switch {
		case page.Key("more?").Truthy():
		case follow:
			action = action.AssocKey("wait-ms", edn.Int(auditWait.Milliseconds()))
		default:
			return nil
		}
	}
}

// auditLine returns a row as text for people: number, time, caller, operation, outcome, and the
// rest.
func auditLine(row edn.Value) string {
	at, _ := row.Key("at").AsInst()
	who, what, outcome := plain(row.Key("principal")), plain(row.Key("kind")), "ok"
	shown := map[string]bool{"v": true, "run": true, "seq": true, "at": true, "epoch": true, "kind": true, "principal": true, "user": true,
		"action": true, "event": true, "success?": true, "ok?": true, "outcome": true, "trace": true, "access": true}
	if who == "" {
		who = plain(row.Key("user"))
	}
	for _, key := range []string{"action", "event"} {
		if row.HasKey(key) {
			what = plain(row.Key(key))
		}
	}
	for _, key := range []string{"success?", "ok?"} {
		if row.HasKey(key) && !row.Key(key).Truthy() {
			outcome = "error"
		}
	}
	if row.HasKey("outcome") {
		outcome = plain(row.Key("outcome"))
	} else if row.Key("error").IsMap() {
		outcome = "error"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %-12s %-24s %-5s", plain(row.Key("seq")), at.Local().Format("2006-01-02 15:04:05.000"),
		display.Printable(cutTo(dash(who), 40)), display.Printable(what), outcome)
	for key, v := range row.Entries() {
		name, _ := key.AsKeyword()
		if shown[name] || v.Len() == 0 && v.Kind() != edn.KindString && (v.IsMap() || v.Kind() == edn.KindSet || v.Kind() == edn.KindVector) {
			continue
		}
		if v.IsMap() && v.Key("type").IsKeyword() {
			v = v.Key("type")
		}
		text := plain(v)
		if v.Kind() == edn.KindString && strings.ContainsAny(text, " \"") {
			text = v.String()
		}
		fmt.Fprintf(&b, "  %s=%s", name, display.Printable(cutTo(text, 200)))
	}
	return strings.TrimRight(b.String(), " ")
}
