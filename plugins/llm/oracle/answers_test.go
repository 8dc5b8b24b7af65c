package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

const wires = "../../internal/provider/testdata/wire"

// seen is what a client says of an answer, in the words of wiretest.Want.
type seen struct {
	text, finish             string
	in, out, cached, thought int64
	calls                    []string
}

func want(w wiretest.Want) seen {
	return seen{
		text: w.Text, finish: w.Finish, in: w.In, out: w.Out, cached: w.Cached, thought: w.Thought, calls: w.Calls,
	}
}

// wellFormed are the transcripts that promise to be read by everybody.
func wellFormed(t *testing.T, dialect string) []wiretest.Transcript {
	var all []wiretest.Transcript
	for _, tr := range wiretest.Load(t, wires, dialect) {
		if tr.WellFormed {
			tr.Body = nil // it is about the answer
			all = append(all, tr)
		}
	}
	require.NotEmpty(t, all)
	return all
}
