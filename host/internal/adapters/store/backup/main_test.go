package backup_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// Each round trip opens two stores with files, so it takes longer than most properties.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "rapid.checks" })
	if !chosen {
		if err := flag.Set("rapid.checks", strconv.Itoa(proof.Of(12, 500))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
