package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/config/pricelist"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon/doctor"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) modelPricesCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "prices",
		Short: "list the prices of the configured models with source and age",
		Long: "prices lists the price of each model block, in USD per million tokens: the price\n" +
			"written there, or that of the price list. --all prints the whole list; with --edn\n" +
			"it is a file that can be edited and given to \"ferment model prices update\".",
		Example: "  ferment model prices\n  ferment model prices --json\n  ferment model prices --all --edn",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return c.printPriceList(cmd.Context())
			}
			loaded, err := c.load(cmd.Context(), c.options())
			if err != nil {
				return err
			}
			c.priceList(loaded.Host.DataDir)
			return c.printModelPrices(loaded)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print the whole price list")
	c.registerLockfile(cmd)
	cmd.AddCommand(c.modelPricesUpdateCommand())
	return cmd
}

func (c *command) modelPricesUpdateCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "update FILE",
		Short: "check a price list and use it instead of the shipped one",
		Long: "update checks a file in the format of \"ferment model prices --all --edn\", lists the\n" +
			"added, changed and removed prices, and installs it as " + pricelist.File + " in the data\n" +
			"directory, where it replaces the shipped list. A running daemon uses it after its\n" +
			"next reload. Removing the file restores the shipped list.",
		Example: "  ferment model prices update prices.edn --dry-run\n  ferment model prices update prices.edn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.updatePrices(cmd.Context(), args[0], dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only check the file and list the changes")
	return cmd
}

// dataDir returns the data directory of the configuration; empty if there is none.
func (c *command) dataDir(ctx context.Context) string {
	cfg, _ := config.Load(ctx, c.config, config.Options{
		Dir:         c.env.Dir,
		Env:         c.env.Getenv,
		Profile:     c.profile,
		HostVersion: c.env.Version,
		HostOnly:    true,
	})
	return cfg.Host.DataDir
}

// priceList returns the price list in force. It warns if an installed list cannot be read.
func (c *command) priceList(dataDir string) pricelist.List {
	list, err := pricelist.InForce(dataDir, time.Now())
	if err != nil {
		c.warn(unreadList, err)
	}
	return list
}

// unreadList is the format of a message about an installed list that cannot be read.
const unreadList = "%s; the shipped prices are used"

func (c *command) printPriceList(ctx context.Context) error {
	list := c.priceList(c.dataDir(ctx))
	switch c.format {
	case formatEDN:
		_, err := c.env.Stdout.Write(list.Text())
		return err
	case formatJSON:
		return c.value(c.env.Stdout, list.Value())
	}
	var rows [][]string
	var sources []string
	for _, e := range list.Prices {
		price := entryPrice(e)
		row := append([]string{e.Vendor, strings.Join(e.Models, " ")}, priceCells(price)...)
		rows = append(rows, append(row, limitCells(price)...))
		if !slices.Contains(sources, e.Source) {
			sources = append(sources, e.Source)
		}
	}
	head := append([]string{"vendor", "model"}, priceHeads...)
	if err := display.Table(c.env.Stdout, append(head, limitHeads...), rows); err != nil {
		return err
	}
	from := "shipped with this program"
	if list.Origin != "" {
		from = "of " + c.relative(list.Origin)
	}
	c.printf("%s %s, in USD per million tokens; sources: %s\n", diag.Counted(len(list.Prices), "price"), from,
		strings.Join(sources, "; "))
	return nil
}

// priceHeads are the columns of a price, limitHeads those of its limits.
var (
	priceHeads = []string{"in", "out", "cached", "write", "read"}
	limitHeads = []string{"up to", "until"}
)

// entryPrice returns an entry of the price list in the form of a price block.
func entryPrice(e pricelist.Entry) edn.Value {
	v, err := edn.Encode(e)
	if err != nil {
		return edn.MustMap()
	}
	return v
}

func priceCells(price edn.Value) []string {
	cell := func(key string) string { return dash(written(price.Key(key))) }
	return []string{cell("input"), cell("output"), cell("cached-input"), cell("cache-write"), dash(ageText(price))}
}

func limitCells(price edn.Value) []string {
	return []string{dash(written(price.Key("up-to"))), dash(written(price.Key("until")))}
}

func ageText(price edn.Value) string {
	days, ok := pricelist.Days(plain(price.Key("date")), time.Now())
	switch {
	case !ok:
		return ""
	case days == 0:
		return "today"
	}
	return strconv.Itoa(days) + " d ago"
}

func (c *command) printModelPrices(loaded *setup.Loaded) error {
	prices, now := loaded.ModelPrices(), time.Now()
	if c.format != formatText {
		rows := make([]edn.Value, len(prices))
		for i, m := range prices {
			rows[i] = m.Value(now)
		}
		return c.value(c.env.Stdout, edn.MustMap(edn.K("prices"), edn.Vector(rows...)))
	}
	if len(prices) == 0 {
		c.printf("no plugin of the configuration asks for models that have prices\n")
		return nil
	}
	var rows [][]string
	for _, m := range prices {
		cells := priceCells(m.Price)
		if m.Price.Key("free").Truthy() {
			cells[0], cells[1] = "free", "free"
		}
		from := m.From()
		if source := written(m.Price.Key("source")); source != "" {
			from += ": " + source
		}
		row := append([]string{m.Plugin, m.Label, m.Model}, cells...)
		rows = append(rows, append(append(row, from), limitCells(m.Price)...))
	}
	head := append([]string{"plugin", "block", "model"}, priceHeads...)
	if err := display.Table(c.env.Stdout, append(append(head, "from"), limitHeads...), rows); err != nil {
		return err
	}
	for _, m := range prices {
		if remark := m.Remark(now); remark != "" {
			c.warn("%s/%s: %s", m.Plugin, m.Label, remark)
		}
	}
	return nil
}

func (c *command) updatePrices(ctx context.Context, file string, dry bool) error {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.env.Dir, path)
	}
	list, problems, err := pricelist.Read(path, time.Now())
	switch {
	case len(problems) > 0:
		return c.wrongPrices(file, problems)
	case err != nil:
		return &setup.EnvironmentError{Op: "read price list " + file, Err: err}
	}
	dir := c.dataDir(ctx)
	changes := pricelist.Compare(c.priceList(dir), list)
	installed := ""
	if !dry {
		if dir == "" {
			return contract.Errorf("config/missing",
				"there is no configuration, so no data directory for the price list").
				WithHint("run it where ferment.hcl is, or name it with --config")
		}
		name, err := list.Install(dir)
		if err != nil {
			return &setup.EnvironmentError{Op: "update prices", Err: err}
		}
		installed = c.relative(name)
	}
	return c.printPriceChanges(changes, len(list.Prices), installed)
}

// wrongPrices reports the errors in a file with their places.
func (c *command) wrongPrices(file string, problems []pricelist.Problem) error {
	if c.format == formatText {
		for _, p := range problems {
			c.printf("%s: %s\n", file, p)
		}
		c.printf("error: the price list is not used: it has %s\n", diag.Counted(len(problems), "problem"))
		return quietError{exit.Negative}
	}
	findings := make([]edn.Value, len(problems))
	for i, p := range problems {
		findings[i] = p.Value()
	}
	return contract.Errorf("config/type", "the price list %s has %s", file, diag.Counted(len(problems), "problem")).
		WithDetail("findings", edn.Vector(findings...))
}

func (c *command) printPriceChanges(changes pricelist.Changes, entries int, installed string) error {
	groups := []struct {
		word   string
		models []string
	}{{"added", changes.Added}, {"changed", changes.Changed}, {"removed", changes.Removed}}
	if c.format != formatText {
		var b edn.MapBuilder
		for _, g := range groups {
			texts := make([]edn.Value, len(g.models))
			for i, m := range g.models {
				texts[i] = edn.Text(m)
			}
			b.Key(g.word, edn.Vector(texts...))
		}
		b.Key("prices", edn.Int(int64(entries)))
		b.OptText("installed", installed)
		return c.value(c.env.Stdout, b.Map())
	}
	var rows [][]string
	for _, g := range groups {
		for _, m := range g.models {
			rows = append(rows, []string{g.word, m})
		}
	}
	if len(rows) > 0 {
		if err := display.Table(c.env.Stdout, []string{"change", "model"}, rows); err != nil {
			return err
		}
	}
	text := "no price changes"
	if len(rows) > 0 {
		text = fmt.Sprintf("%d added, %d changed, %d removed", len(changes.Added), len(changes.Changed),
			len(changes.Removed))
	}
	if installed == "" {
		c.printf("%s; nothing was installed\n", text)
		return nil
	}
	c.printf("%s; %s is used from now on, by a running daemon after \"ferment admin reload\"\n", text, installed)
	return nil
}

// examinePrices reports an installed price list that is not used, and models whose costs are unknown
// or based on old prices.
func examinePrices(e *doctor.Examination, loaded *setup.Loaded) {
	prices, now := loaded.ModelPrices(), time.Now()
	if _, err := pricelist.InForce(loaded.Host.DataDir, now); err != nil {
		e.Add("prices", "list", doctor.Weak, unreadList, err)
	}
	for i, m := range prices {
		if remark := m.Remark(now); remark != "" {
			e.Add("prices", m.Plugin+"/"+m.Label, doctor.Weak, "%s", remark)
		} else if !slices.ContainsFunc(prices[:i], func(o plugins.ModelPrice) bool { return o.Plugin == m.Plugin }) {
			e.Add("prices", m.Plugin, doctor.OK, "the price of model %s is that of the %s", m.Model, m.From())
		}
	}
}
