package dialect

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// The work for a stream grows with its length and not with the square of it: many
// small events with opaque data cost about the same each.
func TestOpaqueDataInManyEvents(t *testing.T) {
	const events = 4000
	for preset, event := range map[string]string{
		"openrouter": `{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"a word of it "}]}}]}`,
		"anthropic":  `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"a word of it "}}`,
	} {
		p, _ := PresetNamed(preset)
		d, a := NewDecoder(p), chat.NewAnswer()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range events {
			_, err := d.Frame([]byte(event), a)
			require.NoError(t, err)
		}
		require.Len(t, a.Blocks, 1)
		signature := a.Blocks[0].Signature.String()
		if details := a.Blocks[0].Details; details != nil {
			signature = details.String()
		}
		runtime.ReadMemStats(&after)
		assert.Equal(t, events, strings.Count(signature, "a word of it "))
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(events*16<<10), preset)
	}
}

// Fragments of one object are joined: texts grow, and of other values the last one
// counts unless it is null.
func TestFragments(t *testing.T) {
	for _, tt := range []struct {
		lists []string
		want  string
	}{
		{[]string{`[{"index":0,"text":"a"}]`, `[{"index":0,"text":"b","format":null}]`, `[{"index":0,"text":null,"format":"x"}]`},
			`[{"format":"x","index":0,"text":"ab"}]`},
		{[]string{`[{"index":0,"text":null}]`, `[{"index":0,"text":"a"}]`, `[{"index":0,"text":"b"}]`}, `[{"index":0,"text":"ab"}]`},
		{[]string{`[{"index":0,"text":"a"}]`, `[{"index":0,"text":"b"}]`, `[{"index":0,"text":7}]`}, `[{"index":0,"text":7}]`},
		{[]string{`[{"text":"a"}]`, `[{"text":"b"}]`}, `[{"text":"a"},{"text":"b"}]`},
		{[]string{`[{"index":0,"type":"x"},{"index":0,"type":"y"}]`, `[{"index":1,"type":"y"}]`},
			`[{"index":0,"type":"x"},{"index":0,"type":"y"},{"index":1,"type":"y"}]`},
	} {
		var f fragments
		for _, list := range tt.lists {
			require.True(t, f.add([]byte(list)))
		}
		assert.Equal(t, tt.want, fmt.Sprint(f))
	}
	var f fragments
	assert.False(t, f.add([]byte(`{"index":0}`)))
}
