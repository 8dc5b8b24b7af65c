package frame

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shown returns the frames of a body that is pushed in pieces of the given
// sizes, the last of which repeats.
func shown(s Splitter, body string, sizes ...int) ([]string, error) {
	var all []string
	each := func(f Frame) error {
		if f.Quiet {
			all = append(all, "~")
		} else {
			all = append(all, string(f.Data))
		}
		return nil
	}
	for i := 0; len(body) > 0; i++ {
		n := min(max(1, sizes[min(i, len(sizes)-1)]), len(body))
		if err := s.Push([]byte(body[:n]), each); err != nil {
			return all, err
		}
		body = body[n:]
	}
	return all, s.End(each)
}

// LLM-013: line ends, byte order mark, comments, several data lines, unknown
// fields, an end without an empty line.
func TestEvents(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"line feeds", "data: a\n\ndata: b\n\n", "a|b"},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", "a|b"},
		{"carriage returns", "data: a\r\rdata: b\r\r", "a|b"},
		{"mixed", "data: a\r\ndata: b\n\r\ndata: c\r\n\n", "a\nb|c"},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", "a"},
		{"comments", ": ping\n\n:\ndata: a\n\n", "~|~|a"},
		{"several lines", "data: a\ndata:b\ndata:  c\n\n", "a\nb\n c"},
		{"other fields", "event: x\nid: 7\nretry: 3\ndata: a\nfoo\n\n", "a"},
		{"lines that are no fields", "a: b\nServer Error\n{\"error\":1}\ndata: a\n \n\n", "Server Error|{\"error\":1}|~|a"},
		{"no data", "event: ping\n\n", ""},
		{"pings", "event: ping\ndata: {}\n\ndata: a\n\n", "~|a"},
		{"pings with other data", "event: ping\ndata: now\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n", "~|~"},
		{"another event named ping", "event: ping\ndata: {\"type\":\"message_delta\"}\n\n", `{"type":"message_delta"}`},
		{"a heartbeat named ping", "event: ping\ndata: {\"type\":\"heartbeat\"}\n\n", `~`},
		{"a chunk named ping", "event: ping\ndata: {\"choices\":[]}\n\n", `{"choices":[]}`},
		{"the name of an event without data", "event: ping\n\ndata: a\n\n", "a"},
		{"empty data", "data\n\ndata:\n\n", "~|~"},
		{"database is no data", "database: x\n\n", ""},
		{"no empty line at the end", "data: a\n\ndata: b", "a|b"},
		{"no line end at the end", "data: a\n", "a"},
		{"empty", "", ""},
	} {
		for _, size := range []int{1, 2, 3, 7, 4096} {
			got, err := shown(&Events{}, tt.body, size)
			require.NoError(t, err)
			assert.Equal(t, tt.want, strings.Join(got, "|"), "%s in pieces of %d", tt.name, size)
		}
	}
}

func TestLinesAndWhole(t *testing.T) {
	for _, size := range []int{1, 3, 4096} {
		got, err := shown(&Lines{}, "\xef\xbb\xbf{\"a\":1}\r\n\n {} \n{\"b\"", size)
		require.NoError(t, err)
		assert.Equal(t, []string{`{"a":1}`, `{}`, `{"b"`}, got)
		got, err = shown(&Whole{}, "\n{\n}\n", size)
		require.NoError(t, err)
		assert.Equal(t, []string{"{\n}"}, got)
	}
	got, err := shown(&Whole{}, "  ", 1)
	require.NoError(t, err)
	assert.Empty(t, got)
}

// LLM-056: any splitting of a stream into pieces gives the same frames.
func TestPiecesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.StringOfN(rapid.SampledFrom([]rune("data: :x\r\n\n\r{}é")), 0, 80, -1).Draw(t, "body")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 20).Draw(t, "sizes")
		for _, fresh := range []func() Splitter{func() Splitter { return &Events{} }, func() Splitter { return &Lines{} }, func() Splitter { return &Whole{} }} {
			one, err := shown(fresh(), body, len(body)+1)
			require.NoError(t, err)
			many, err := shown(fresh(), body, sizes...)
			require.NoError(t, err)
			assert.Equal(t, one, many)
		}
	})
}

// Row 16: an unterminated frame is rejected before it takes memory.
func TestFramesAreBounded(t *testing.T) {
	for name, s := range map[string]Splitter{"events": &Events{}, "lines": &Lines{}} {
		_, err := shown(s, "data: "+strings.Repeat("x", MaxFrame), 4096)
		require.ErrorIs(t, err, ErrTooLarge, name)
	}
	_, err := shown(&Events{}, strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 1100), 4096)
	require.ErrorIs(t, err, ErrTooLarge, "many lines of one event")
	stop := errors.New("stop")
	require.ErrorIs(t, (&Events{}).Push([]byte("data: a\n\n"), func(Frame) error { return stop }), stop)
}

// LLM-051: no body makes a splitter panic, and no frame exceeds the limit.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: x\n\ndata: b"), 3)
	f.Add([]byte("{}\n{\"a\":1}\n"), 1)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		for _, s := range []Splitter{&Events{}, &Lines{}, &Whole{}} {
			got, _ := shown(s, string(body), size)
			for _, frame := range got {
				if len(frame) > MaxFrame {
					t.Fatal("a frame over the limit")
				}
			}
		}
	})
}
