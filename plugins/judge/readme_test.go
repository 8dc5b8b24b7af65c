package main

import (
	"crypto/rand"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/judge/internal/rubric"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// The README shows real output of the plugin and a valid rubric.
func TestReadmeExamples(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	said := regexp.MustCompile("(?s)```console\n\\$ bin/ferment act eval/grade '([^']*)'\n(.*?)```").FindSubmatch(raw)
	require.NotNil(t, said)
	out := sdktest.Serve(t, newPlugin(rand.Reader)).MustInvoke(rulesCap, edn.MustRead(string(said[1])))
	assert.True(t, edn.Equal(edn.MustRead(string(said[2])), out), "%s", out)

	example := regexp.MustCompile("(?s)```edn\n(.*?)```").FindSubmatch(raw)
	require.NotNil(t, example)
	r, err := rubric.Parse(edn.MustRead(string(example[1])), edn.Nil())
	require.NoError(t, err)
	assert.NoError(t, r.Asks())
}
