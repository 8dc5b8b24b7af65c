package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// LLM-010: comparing the bytes around a text gives the same answer, pieces and
// errors as parsing every event.
func TestRepeatingReadsWhatParsingReads(t *testing.T) {
	texts := []string{
		`" word"`, `"é"`, `"\n"`, `"\u00e9"`, `"\ud83d"`, `"\ude00"`, `""`, "\"\xc3\"", "\"\xa9\"", `null`, `7`, `"a\"b"`, `"\\"`, `"`, `"a","index":1,"x":"b"`,
		`["a"]`, `"\x"`, `"\"content\":\"c\""`, `"\"text\":\"c\""`,
	}
	events := map[string][]string{
		"generic": {
			`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`,
			`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content": %s},"finish_reason":null}]} `,
			`{"id":"c","model":"n","choices":[{"index":1,"delta":{"content":%s}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":%s,"refusal":"no"}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":%s},"finish_reason":"stop"}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":"x","content":%s}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":%s}}]}`,
			`{"id":"c","choices":[{"index":0,"message":{"content":%s}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":%s}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":%s}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":9}}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":%s}}],"usage":{"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":8}}}`,
			`{"id":"c","choices":[{"index":0,"delta":{"role":"tool","content":%s}}]}`,
			`{"error":{"message":%s},"content":"x"}`,
			`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":%s}}]}}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":%s,"tool_calls":[{"index":2,"id":"u","function":{"name":"f"}}]}}]}`,
		},
		"anthropic": {
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":%s}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":%s}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%s}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"later_delta","text":%s}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2},"x":%s}`,
		},
	}
	for preset, forms := range events {
		p, _ := PresetNamed(preset)
		t.Run(preset, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				quick := NewDecoder(p).(*repeating)
				plain := NewDecoder(p).(*repeating).Decoder
				a, b := chat.NewAnswer(), chat.NewAnswer()
				favourite := rapid.SampledFrom(forms).Draw(t, "favourite")
				for i := range rapid.IntRange(1, 12).Draw(t, "events") {
					form := favourite
					if rapid.IntRange(0, 2).Draw(t, "other") == 0 {
						form = rapid.SampledFrom(forms).Draw(t, "form")
					}
					event := fmt.Sprintf(form, rapid.SampledFrom(texts).Draw(t, "text"))
					got, err := quick.Frame([]byte(event), a)
					want, wantErr := plain.Frame([]byte(strings.TrimSpace(event)), b)
					assert.Equal(t, wantErr, err, "%d: %s", i, event)
					assert.Equal(t, want, got, "%d: %s", i, event)
					assert.Equal(t, b, a, "%d: %s", i, event)
				}
			})
		})
	}
	p, _ := PresetNamed("generic")
	d := NewDecoder(p).(*repeating)
	a := chat.NewAnswer()
	for range 3 {
		_, err := d.Frame([]byte(chunk), a)
		assert.NoError(t, err)
	}
	text, known := d.text([]byte(strings.Replace(chunk, " word", "!", 1)))
	assert.True(t, known, "a plain stream is compared, not parsed")
	assert.Equal(t, "!", text)
}

// LLM-023: the event by which a block begins changes the decoder even where it changes nothing but
// the text of the answer, so the next one like it is not compared but read.
func TestRepeatedStartsAreDamage(t *testing.T) {
	p, _ := PresetNamed("anthropic")
	d, a := NewDecoder(p), chat.NewAnswer()
	start := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`
	for _, event := range []string{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, start, start} {
		_, err := d.Frame([]byte(event), a)
		assert.NoError(t, err)
	}
	assert.Equal(t, 2, a.Damaged, "a piece before its block and a block that begins again")
}
