package main

import (
	"testing"

	"github.com/fermenthq/ferment/sdk/sdktest"
)

func TestMain(m *testing.M) { sdktest.Main(m, plugin()) }

// The conformance checks of the plugin contract, in this process and on the
// plugin as a process of its own.
func TestConformance(t *testing.T)          { sdktest.Conform(t, plugin()) }
func TestConformanceAsProcess(t *testing.T) { sdktest.ConformSelf(t) }

func TestCounts(t *testing.T) {
	p := sdktest.Serve(t, plugin())
	out := p.MustInvoke("demo/wordcount", In{Text: "To be or not to be"})
	if want := `{:distinct 4 :longest "not" :words 6}`; out.String() != want {
		t.Errorf("got %s, want %s", out, want)
	}
}
