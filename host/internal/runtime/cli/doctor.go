package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon/doctor"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

func (c *command) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "examine the machine and the configuration: isolation, programs, sockets, disk space",
		Long: "doctor reports which isolation of plugins this machine supports, layer by layer, and\n" +
			"whether everything that the configuration needs exists. It asks plugins of models\n" +
			"whether they have a key and reach their server, which sends no request to a model and costs\n" +
			"nothing. It exits with 1 if a required part fails; weak parts do not matter.",
		Example: "  ferment doctor\n  ferment doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.doctor(cmd.Context())
		},
	}
}

func (c *command) doctor(ctx context.Context) error {
	e := &doctor.Examination{}
	e.Add("versions", "ferment", doctor.OK, "%s, %s on %s/%s", c.env.Version, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	e.Add("versions", "contracts", doctor.OK, "envelope %d, plugin protocol ferment.plugin.v%d", contract.Proto,
		wire.Protocol)
	e.Isolation(confine.Probe())
	xdg, _ := c.env.Getenv("XDG_RUNTIME_DIR")
	e.Sockets(xdg)
	loaded, err := setup.Load(ctx, c.options())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e.Add("configuration", "files", doctor.Fails, "%s", err)
	case loaded.Generation == nil:
		e.Add("configuration", "files", doctor.Fails, "%s; \"ferment validate\" shows what is wrong",
			diag.Counted(loaded.Diagnostics.Count(diag.SeverityError), "error"))
	default:
		e.Add("configuration", "files", doctor.OK, "profile %s, %s", loaded.Profile,
			diag.Counted(len(loaded.Plugins), "plugin"))
		for _, w := range view.Weaker(loaded.Config) {
			e.Add("configuration", strings.Join(w.Path, "."), doctor.Weak, "%s, in profile prod %s", w.Written,
				w.ProdWritten)
		}
		e.Languages(loaded)
		e.Space(loaded.Host.DataDir, c.relative)
		if n := len(loaded.HTTP.AdminSocket); n > config.MaxSocketPath {
			e.Add("data", "admin socket", doctor.Weak,
				"its path has %d of at most %d bytes, so no daemon can start: set http.admin_socket", n, config.MaxSocketPath)
		}
		for _, p := range loaded.Plugins {
			e.Plugin(loaded, p)
		}
		e.Reach(ctx, loaded)
		examineJudges(e, loaded)
		examinePrices(e, loaded)
		c.examineModels(ctx, e, loaded)
	}
	e.Clock()
	if err := c.printExamination(e); err != nil {
		return err
	}
	if e.Failed() {
		return quietError{code: 1}
	}
	return nil
}

// examineJudges reports the calibration of the judges in use (JDG-011).
func examineJudges(e *doctor.Examination, loaded *setup.Loaded) {
	for _, s := range loaded.JudgeStates(time.Now()) {
		if !s.Used {
			continue
		}
		state := doctor.OK
		if s.Doubtful() {
			state = doctor.Weak
		}
		v := s.Value(false)
		text := stateSentences[judgeState(v)]
		if s.Err != nil {
			text += ": " + s.Err.Error()
		} else if r := s.Record; r != nil {
			text += fmt.Sprintf(", kappa %s of %s", written(v.Key("kappa")), day(v.Key("at")))
		}
		e.Add("judge", s.Judge.Name, state, "%s", text)
	}
}

var wholeHash = regexp.MustCompile(`\b(b3:[0-9a-f]{12})[0-9a-f]{52}\b`)

// shortHashes shortens hashes to a prefix, because a full one is wider than its column.
func shortHashes(text string) string { return wholeHash.ReplaceAllString(text, "$1…") }

func (c *command) printExamination(e *doctor.Examination) error {
	if c.format != formatText {
		parts := make([]edn.Value, len(e.Parts))
		for i, p := range e.Parts {
			parts[i] = edn.MustMap(
				edn.K("area"), edn.K(p.Area),
				edn.K("name"), edn.Text(p.Name),
				edn.K("state"), edn.K(p.State),
				edn.K("text"), edn.Text(p.Text),
			)
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("ok?"), edn.Bool(!e.Failed()),
			edn.K("isolation"), edn.K(string(confine.Probe().Best())),
			edn.K("parts"), edn.Vector(parts...),
		))
	}
	rows := make([][]string, len(e.Parts))
	area := ""
	for i, p := range e.Parts {
		rows[i] = []string{"", p.Name, p.State, shortHashes(p.Text)}
		if p.Area != area {
			rows[i][0], area = p.Area, p.Area
		}
	}
	if err := display.Table(c.env.Stdout, []string{"area", "part", "state", "what was found"}, rows); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, p := range e.Parts {
		counts[p.State]++
	}
	_, err := io.WriteString(c.env.Stdout,
		fmt.Sprintf("\n%d ok, %d weak, %d fail\n", counts[doctor.OK], counts[doctor.Weak], counts[doctor.Fails]))
	return err
}
