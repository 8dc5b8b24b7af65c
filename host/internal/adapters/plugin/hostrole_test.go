//go:build linux

package plugin

import (
	"context"
	"fmt"
	"os"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/launch"
)

// hostRole is a host that will be killed: it runs a plugin with two
// grandchildren and prints the pids of all of them.
func hostRole(args []string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	dir, err := rundir.Open(args[0])
	fail(err)
	s, err := New(Options{Runtime: dir, Reaper: launch.NewReaper(dir.Path())})
	fail(err)
	p := as("good")
	p.Isolation.Level = confine.None // needed to start child processes
	fail(s.Start(p))
	c, err := s.Client(map[string]Route{"t/echo": {Plugin: "p"}})
	fail(err)
	fail(c.Await(context.Background(), "t/echo"))
	for _, input := range []string{`{:do "grandchild"}`, `{:do "grandchild"}`} {
		a, err := c.Invoke(context.Background(), request(input))
		fail(err)
		pid, _ := out(a).Key("pid").AsInt()
		fmt.Println(pid)
	}
	fmt.Println(s.Status()[0].PID)
	fmt.Println("ready")
	_ = os.Stdout.Sync()
	select {}
}
