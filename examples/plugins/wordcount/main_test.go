package main

import (
	"testing"

	"github.com/fermenthq/ferment/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.Main(m, plugin()) }

// The conformance checks of the plugin contract, in this process and, where they
// stop or kill the plugin, in one of its own.
func TestConformance(t *testing.T) { sdktest.Conform(t, plugin()) }

func TestCounts(t *testing.T) {
	p := sdktest.Serve(t, plugin())
	out := p.MustInvoke("demo/wordcount", In{Text: "To be or not to be"})
	if want := `{:distinct 4 :longest "not" :words 6}`; out.String() != want {
		t.Errorf("got %s, want %s", out, want)
	}
}
