package edn_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain raises the number of property checks, which are cheap in this
// package, unless the command line sets it.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
