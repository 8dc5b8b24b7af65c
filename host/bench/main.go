package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"github.com/fermenthq/ferment/sdk/launch"
)

func main() {
	if status, ok := launch.Hidden(os.Args); ok {
		os.Exit(status)
	}
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
		}
	}
	smoke := flag.Bool("smoke", false, "few short rounds, to see that the benchmarks run")
	profile := flag.String("cpuprofile", "", "write a profile of the calls to this file")
	flag.Parse()
	// What host and SDK set in use.
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
	if err := run(pace); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// pace is how much is measured.
type pace struct {
	rounds int
	calls  int
}

func run(p pace) error {
	fmt.Printf("%s %s/%s, %d processors; medians of %d alternating rounds\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), p.rounds)
	var rows []row
	for _, part := range []func(pace) ([]row, error){codecs, schemas, evaluator, calls, tools, failover} {
		more, err := part(p)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return print(os.Stdout, rows)
}
