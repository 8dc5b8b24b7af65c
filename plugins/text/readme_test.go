package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// EMB-009: the README prints what the plugin answers. The command line shows
// the text of an answer that has one, and anything else as EDN.
func TestReadmeExamples(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	p := sdktest.Serve(t, newPlugin())
	command := regexp.MustCompile(`^\$ bin/ferment act (\S+) '([^']*)'( 2>&1 \| head -2)?$`)
	capability := map[string]string{"context/summarize": "text/extractive", "text/render": "text/template", "route/classify": "text/classifier"}
	seen := map[string]bool{}
	for _, block := range strings.Split(string(raw), "```console\n")[1:] {
		block, _, closed := strings.Cut(block, "```")
		require.True(t, closed)
		for _, example := range strings.Split("\n"+block, "\n$ ")[1:] {
			line, printed, _ := strings.Cut("$ "+example, "\n")
			said := command.FindStringSubmatch(line)
			require.NotNil(t, said, line)
			seen[said[1]] = true
			out, err := p.Do(context.Background(), sdktest.Call{Capability: capability[said[1]], Intent: said[1], Input: edn.MustRead(said[2])})
			if said[3] != "" {
				e := contract.AsError(err)
				require.NotNil(t, e, line)
				assert.Equal(t, "error: "+e.Message+"\n  type    :"+e.Type+" (stop, request)", strings.TrimSpace(printed), line)
				continue
			}
			require.NoError(t, err, line)
			answer := out.Key("result").Key("out")
			if text, ok := answer.Key("text").AsString(); ok {
				assert.Equal(t, strings.TrimSpace(text), strings.TrimSpace(printed), line)
			} else {
				assert.True(t, edn.Equal(edn.MustRead(printed), answer), "%s\n%s", line, answer)
			}
		}
	}
	assert.Len(t, seen, len(capability), "every intent has an example")
}
