package edn_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain raises the number of property checks, which are cheap here, unless
// the command line says otherwise.
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
