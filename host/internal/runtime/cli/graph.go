package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/plan/diagram"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// drawings are the drawing formats by the value of --as, which is also the file extension.
var drawings = []struct {
	name string
	ends []string
	draw func(*diagram.Diagram) string
}{
	{"mermaid", []string{".mmd", ".mermaid"}, (*diagram.Diagram).Mermaid},
	{"dot", []string{".dot", ".gv"}, (*diagram.Diagram).DOT},
	{"svg", []string{".svg"}, (*diagram.Diagram).SVG},
}

func drawingNames() []string {
	var names []string
	for _, d := range drawings {
		names = append(names, d.name)
	}
	return names
}

func (c *command) graphCommand() *cobra.Command {
	var as, file string
	var bind []string
	cmd := &cobra.Command{
		Use:   "graph PLAN.edn",
		Short: "draw a plan with its dependencies, candidates and gates",
		Long: "graph draws the nodes with their dependencies, their candidates in order and their gates. A solid line is\n" +
			"data, a dashed one an order; a dashed box has a condition. A plan with errors is drawn too if its nodes can\n" +
			"be ordered; the errors go to standard error and the exit code is 1. --bind fills slots that a run would\n" +
			"bind.",
		Example: "  ferment graph examples/plans/parallel.edn\n  ferment graph plan.edn --as dot > plan.dot\n  ferment graph plan.edn --file plan.svg\n  ferment graph plan.edn --bind fen='\"8/8/8/8/8/8/8/8 w - - 0 1\"' --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			draw, err := drawing(as, file)
			if err != nil {
				return err
			}
			bindings, err := bound(bind, edn.Nil())
			if err != nil {
				return err
			}
			loaded, err := c.load(cmd.Context(), c.options())
			if err != nil {
				return err
			}
			return c.graph(args[0], file, bindings, draw, loaded)
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "mermaid, dot or svg (default: by the extension of --file, else mermaid)")
	cmd.Flags().StringVar(&file, "file", "", "write the drawing to this file")
	cmd.Flags().StringArrayVar(&bind, "bind", nil, "binding of the plan, as NAME=EDN; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("as", fixed(drawingNames()).always())
	return cmd
}

// drawing returns the function for a drawing format.
func drawing(as, file string) (func(*diagram.Diagram) string, error) {
	end := strings.ToLower(filepath.Ext(file))
	for _, d := range drawings {
		if as == d.name {
			return d.draw, nil
		}
		for _, e := range d.ends {
			if as == "" && end == e {
				return d.draw, nil
			}
		}
	}
	switch {
	case as != "":
		return nil, usagef("unknown drawing format %q: expected one of %s%s", as, strings.Join(drawingNames(), ", "),
			didYouMean(contract.Nearest(as, drawingNames())))
	case file != "" && file != standardOutput:
		return nil, usagef("%s has no known extension: expected .mmd, .dot or .svg, or set --as", file)
	}
	return drawings[0].draw, nil
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}

func (c *command) graph(
	name, file string, bindings edn.Value, draw func(*diagram.Diagram) string, loaded *setup.Loaded,
) error {
	v, positions, err := c.readPlan(name)
	if err != nil {
		return err
	}
	p, findings := readPlan(name, v, positions, surroundings{bindings: bindings}, loaded)
	refusal := c.refusal(name, positions, findings)
	if p == nil {
		return refusal
	}
	env := planEnv(surroundings{bindings: bindings}, loaded)
	prog, cycle := plan.Link(p, env)
	if cycle != nil {
		return refusal // already reported as a finding
	}
	d := diagram.Of(prog, env)
	switch {
	case file != "" && file != standardOutput:
		err = c.writeOut(file, []byte(draw(d)))
	case c.format != formatText:
		err = c.value(c.env.Stdout, d.Value())
	default:
		_, err = fmt.Fprint(c.env.Stdout, draw(d))
	}
	if err != nil {
		return err
	}
	return refusal
}
