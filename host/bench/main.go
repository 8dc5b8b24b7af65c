package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] { // roles of this program as a child process
		case rolePlugin:
			servePlugin(os.Args[2])
		case roleBare:
			serveBare()
			return
		case roleMCP:
			if err := serveMCP(); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
			return
		case roleModels:
			if err := serveModels(); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
			return
		case roleOwnModel:
			if err := serveOwnModel(os.Args[2], os.Args[3]); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
			return
		case roleCLI:
			os.Exit(runCLI(os.Args[2:]))
		case roleNone:
			return
		case roleWorkspace:
			scanWorkspace(os.Args[2], os.Args[3])
			return
		}
	}
	smoke := flag.Bool("smoke", false, "measure a few short rounds only, to check that the benchmarks work")
	profile := flag.String("cpuprofile", "", "write a profile of the calls to this file")
	document := flag.String("json", "", "also write the figures as JSON to this file")
	strict := flag.Bool("check", false, "end with status 1 if a goal is missed that was met before")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "bench [FLAGS] [PART ...] measures the parts that are named, or all:")
		for _, part := range parts {
			fmt.Fprintln(flag.CommandLine.Output(), "  "+part.name)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	// The default collector settings of the host.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	pace := pace{rounds: 9, calls: 1500}
	if *smoke {
		pace.rounds, pace.calls = 2, 60
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := run(pace, flag.Args(), *document, *strict); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// pace is the extent of the measurement.
type pace struct {
	rounds int
	calls  int
}

// part is a named group of rows of the table.
type part struct {
	name    string
	measure func(pace) ([]row, error)
}

// parts lists the parts in the order of the table.
var parts = []part{
	{"codecs", codecs},
	{"schemas", schemas},
	{"evaluator", evaluator},
	{"prompts", prompts},
	{"conversations", conversations},
	{"chat", chatTurn},
	{"calls", calls},
	{"judges", judges},
	{"learned", ordering},
	{"tools", tools},
	{"judge-rules", judgeRules},
	{"failover", failover},
	{"configuration", configuration},
	{"effects", effects},
	{"life", life},
	{"durable", durable},
	{"callers", callers},
	{"telemetry", observed},
	{"one-act", oneAct},
	{"cache", cached},
	{"models", models},
	{"own-models", own},
	{"embedded", embedded},
	{"workspace", workspaces},
}

// run measures the named parts, or all if names is empty, and prints the table. If document is not
// empty, it also writes the figures to that file as JSON. With strict, a missed goal is an error.
func run(p pace, names []string, document string, strict bool) error {
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	machine := machineNow()
	fmt.Printf("%s; medians of %d alternating rounds\n\n", machine, p.rounds)
	var rows []row
	for _, part := range parts {
		if len(names) > 0 && !slices.Contains(names, part.name) {
			continue
		}
		more, err := part.measure(p)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	if err := print(os.Stdout, rows); err != nil {
		return err
	}
	if document != "" {
		if err := writeDocument(document, machine, rows); err != nil {
			return err
		}
	}
	if strict {
		return missed(rows)
	}
	return nil
}
