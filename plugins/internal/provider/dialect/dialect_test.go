package dialect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
	"github.com/fermenthq/ferment/plugins/internal/provider/frame"
	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

const wires = "../testdata/wire"

func presets(t testing.TB) []Preset {
	var all []Preset
	for _, name := range []string{"openai", "openai-responses", "anthropic", "ollama"} {
		p, ok := PresetNamed(name)
		require.True(t, ok)
		all = append(all, p)
	}
	return all
}

// read decodes a body that arrives in pieces; events are the pieces of the
// answer in order, joined where their kind is equal.
func read(p Preset, media, body string, sizes ...int) (a *chat.Answer, events []string, skipped int, err error) {
	a = chat.NewAnswer()
	d, s := NewDecoder(p), Splitter(p, media)
	last := chat.Kind("")
	each := func(f frame.Frame) error {
		if f.Quiet {
			return nil
		}
		pieces, err := d.Frame(f.Data, a)
		if errors.Is(err, ErrMalformed) {
			skipped++
			return nil
		}
		for _, x := range pieces {
			if x.Kind == last {
				events[len(events)-1] += x.Text
			} else {
				events = append(events, string(x.Kind)+" "+x.Text)
			}
			last = x.Kind
		}
		return err
	}
	for i := 0; len(body) > 0 && err == nil; i++ {
		n := min(sizes[min(i, len(sizes)-1)], len(body))
		err = s.Push([]byte(body[:n]), each)
		body = body[n:]
	}
	if err == nil {
		err = s.End(each)
	}
	return a, events, skipped, err
}

func media(tr wiretest.Transcript) string {
	m := tr.Header.Get("Content-Type")
	for i, r := range m {
		if r == ';' {
			return m[:i]
		}
	}
	return m
}

// LLM-013, LLM-014, LLM-024: the decoded contents of every transcript.
func TestTranscripts(t *testing.T) {
	for _, p := range presets(t) {
		for _, tr := range wiretest.Load(t, wires, string(p.Dialect)) {
			if tr.Want.Error != "" {
				continue // tested with the plugin
			}
			t.Run(string(p.Dialect)+"/"+tr.Name, func(t *testing.T) {
				a, _, skipped, err := read(p, media(tr), tr.Whole(), 4096)
				require.NoError(t, err)
				require.True(t, p.Close(a), "it is complete")
				w := tr.Want
				assert.Equal(t, w.Text, a.Text.String())
				assert.Equal(t, w.Reasoning, a.Reasoning.String())
				finish := a.Finish
				if len(a.Calls) > 0 && finish == chat.Stop {
					finish = chat.ToolCalls
				}
				assert.Equal(t, w.Finish, string(finish))
				assert.Equal(t, w.Assumed, a.Assumed)
				assert.EqualValues(t, w.Skipped, skipped)
				assert.Equal(t, []int64{w.In, w.Out, w.Cached, w.Thought, w.Written},
					[]int64{a.Usage.In, a.Usage.Out, a.Usage.Cached, a.Usage.Reasoning, a.Usage.Written})
				var calls []string
				for _, c := range a.Calls {
					calls = append(calls, strings.TrimSpace(c.ID+" "+c.Name+" "+c.Args.String()))
				}
				assert.Equal(t, w.Calls, calls)
				var sealed []string
				for _, b := range a.Blocks {
					if s := b.Signature.String() + b.Data; s != "" {
						sealed = append(sealed, s)
					}
				}
				assert.Equal(t, w.Sealed, sealed)
			})
		}
	}
}

// LLM-056: any splitting of a stream gives the same events, and any prefix
// without its end is not an answer.
func TestSplittingAndPrefixes(t *testing.T) {
	for _, p := range presets(t) {
		all := wiretest.Load(t, wires, string(p.Dialect))
		rapid.Check(t, func(t *rapid.T) {
			tr := rapid.SampledFrom(all).Draw(t, "transcript")
			sizes := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 30).Draw(t, "sizes")
			a, one, n, err := read(p, media(tr), tr.Whole(), len(tr.Whole())+1)
			b, many, m, again := read(p, media(tr), tr.Whole(), sizes...)
			assert.Equal(t, fmt.Sprint(err), fmt.Sprint(again))
			assert.Equal(t, one, many, tr.Name)
			assert.Equal(t, n, m)
			assert.Equal(t, a.Text.String(), b.Text.String())
			assert.Equal(t, a.Usage, b.Usage)

			cut := rapid.IntRange(0, len(tr.Whole())).Draw(t, "cut")
			c, _, _, _ := read(p, media(tr), tr.Whole()[:cut], 4096)
			if c.Finish == chat.Unfinished && !c.Ended {
				assert.False(t, p.Close(c), "%s cut at %d", tr.Name, cut)
			} else {
				assert.True(t, p.Close(c))
			}
		})
	}
}

// LLM-014: the operator chooses the terminator.
func TestTerminators(t *testing.T) {
	finished := func() *chat.Answer { a := chat.NewAnswer(); a.Finish = chat.Stop; return a }
	ended := func() *chat.Answer { a := chat.NewAnswer(); a.Ended = true; return a }
	for _, tt := range []struct {
		how                     Terminator
		nothing, finish, formal bool
	}{{Either, false, true, true}, {Strict, false, false, true}, {EOF, true, true, true}} {
		p := Preset{Terminator: tt.how}
		assert.Equal(t, tt.nothing, p.Close(chat.NewAnswer()), tt.how)
		assert.Equal(t, tt.finish, p.Close(finished()), tt.how)
		a := ended()
		assert.Equal(t, tt.formal, p.Close(a), tt.how)
		assert.True(t, a.Assumed && a.Finish == chat.Stop, "no reason was given")
	}
}

func TestForeignAndInBand(t *testing.T) {
	for _, p := range presets(t) {
		d := NewDecoder(p)
		_, err := d.Frame([]byte(`{"status":"ok"}`), chat.NewAnswer())
		assert.ErrorIs(t, err, ErrForeign, p.Name)
		_, err = d.Frame([]byte(`[1]`), chat.NewAnswer())
		assert.ErrorIs(t, err, ErrMalformed, p.Name)
		var inBand *InBand
		_, err = d.Frame([]byte(`{"error":{"message":"no"}}`), chat.NewAnswer())
		assert.ErrorAs(t, err, &inBand, p.Name)
		assert.Nil(t, Splitter(p, "text/html"), p.Name)
	}
}

// LLM-051: no event makes a decoder panic.
func FuzzDecoders(f *testing.F) {
	for _, p := range presets(f) {
		for _, tr := range wiretest.Load(f, wires, string(p.Dialect)) {
			f.Add(tr.Whole(), 7)
		}
	}
	f.Fuzz(func(t *testing.T, body string, size int) {
		for _, p := range presets(t) {
			for _, m := range []string{"text/event-stream", "application/json", "application/x-ndjson"} {
				a, _, _, _ := read(p, m, body, max(1, size))
				p.Close(a)
			}
		}
	})
}
