package edn_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// VAL-015, VAL-017: each limit, one below and one above.
func TestLimitsAtTheEdge(t *testing.T) {
	lim := edn.Limits{Bytes: 100, Depth: 3, Nodes: 6, String: 10}
	for _, c := range []struct {
		name, text, code string
		offset           int
	}{
		{"bytes", strings.Repeat(" ", 99) + "1", "", 0},
		{"bytes", strings.Repeat(" ", 100) + "1", "limit-bytes", 100},
		{"depth", "[[[]]]", "", 0},
		{"depth", "[[[1]]]", "", 0},
		{"depth", "[[[[]]]]", "limit-depth", 3},
		{"depth", "#a #b #c 1", "", 0},
		{"depth", "#a #b [#c 1]", "limit-depth", 7},
		{"depth", "#_[[[[]]]] 1", "limit-depth", 5},
		{"nodes", "[1 2 3 4 5]", "", 0},
		{"nodes", "[1 2 3 4 5 6]", "limit-nodes", 11},
		{"nodes", "[{} () #{} #a b]", "", 0},
		{"nodes", "[{} () #{} #a b c]", "limit-nodes", 16},
		{"nodes", "[#_a #_b 1 2 3]", "", 0},
		{"nodes", "[#_a #_b 1 2 3 4]", "limit-nodes", 15},
		{"nodes", "#_#_#_#_#_#_#_ 1", "limit-nodes", 12},
		{"string", `"0123456789"`, "", 0},
		{"string", `"01234567890"`, "limit-string", 11},
		{"string", `"\n12345678\n"`, "", 0},
		{"string", `"\n123456789\n"`, "limit-string", 12},
		{"string", `"żżżżż"`, "", 0},
		{"string", `"ażżżżż"`, "limit-string", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := edn.ReadString(c.text, edn.WithLimits(lim))
			if c.code == "" {
				require.NoError(t, err, "%s", c.text)
				return
			}
			syntax := asSyntaxError(t, err, c.text)
			assert.Equal(t, c.code, syntax.Code, "%s", c.text)
			assert.Equal(t, c.offset, syntax.Pos.Offset, "%s", c.text)
		})
	}
}

// VAL-015: the tag of an instant counts for depth, in text and in values.
func TestInstantsHaveDepth(t *testing.T) {
	text := `[[#inst "2026-11-20T10:00:00Z"]]`
	v, err := edn.ReadString(text, edn.WithLimits(edn.Limits{Depth: 3}))
	require.NoError(t, err)
	assert.Equal(t, 3, v.Depth())
	_, err = edn.ReadString(text, edn.WithLimits(edn.Limits{Depth: 2}))
	assert.Equal(t, "limit-depth", asSyntaxError(t, err, text).Code)
}

// The presets of section 1.2, and the caps that no option raises.
func TestPresets(t *testing.T) {
	assert.Equal(t, edn.Limits{Bytes: 16 << 20, Depth: 128, Nodes: 1_000_000, String: 8 << 20}, edn.Wire)
	assert.Equal(t, edn.Limits{Bytes: 4 << 20, Depth: 128, Nodes: 200_000, String: 1 << 20}, edn.Body)
	assert.Equal(t, edn.Limits{Bytes: 64 << 10, Depth: 32, Nodes: 10_000, String: 64 << 10}, edn.Config)
	assert.Equal(t, edn.Limits{Bytes: 64 << 20, Depth: 128, Nodes: 4_000_000, String: 64 << 20}, edn.Stored)

	deep := strings.Repeat("[", 512) + strings.Repeat("]", 512)
	_, err := edn.ReadString(deep, edn.WithLimits(edn.Limits{Depth: 10_000}))
	require.NoError(t, err)
	_, err = edn.ReadString("["+deep+"]", edn.WithLimits(edn.Limits{Depth: 10_000}))
	assert.Equal(t, "limit-depth", asSyntaxError(t, err, "deep").Code)
	_, err = edn.ReadString(deep)
	assert.Equal(t, 128, asSyntaxError(t, err, "deep").Pos.Offset)
	_, err = edn.Read(make([]byte, 64<<20+1), edn.WithLimits(edn.Limits{Bytes: 1 << 30}))
	assert.Equal(t, "limit-bytes", asSyntaxError(t, err, "long").Code)
}

// hostile returns texts that cost more than they seem to, each about n bytes
// long. The code is empty for a valid text.
func hostile(n int) []struct{ name, text, code string } {
	repeat := func(unit string) string { return strings.Repeat(unit, n/len(unit)) }
	var keys, members strings.Builder
	for i := 0; keys.Len() < n; i++ {
		fmt.Fprintf(&keys, ":key-%d nil ", n-i)
		fmt.Fprintf(&members, `"prefix that is long and shared %d" `, n-i)
	}
	nested := strings.Repeat("{[0] 0 ", 60) + "{}" + strings.Repeat(" 1}", 60)
	return []struct{ name, text, code string }{
		{"brackets", repeat("["), "limit-depth"},
		{"discards", strings.Repeat("#_", n), "limit-nodes"},
		{"discarded forms", "[" + repeat("#_a ") + "]", ""},
		{"tags", repeat("#a "), "limit-depth"},
		{"ones", "[" + repeat("1 ") + "]", ""},
		{"empty vectors", "[" + repeat("[]") + "]", ""},
		{"single vectors", "[" + repeat("[1]") + "]", ""},
		{"single sets", "[" + repeat("#{1}") + "]", ""},
		{"single maps", "[" + repeat("{1 1}") + "]", ""},
		{"pairs of tags", "[" + repeat("#a 1 ") + "]", ""},
		{"nested quads", "[" + repeat("[[[[1]]]]") + "]", ""},
		{"digits", repeat("1"), "limit-digits"},
		{"fraction", "0." + repeat("1"), "limit-digits"},
		{"exponent", "1e" + repeat("1"), "limit-digits"},
		{"big integers", "[" + repeat("99999999999999999999 ") + "]", ""},
		{"big decimals", "[" + repeat("9999999999.9999999999M ") + "]", ""},
		{"small decimals", "[" + repeat("1M ") + "]", ""},
		{"escapes", `"` + repeat(`\n`) + `"`, ""},
		{"unicode escapes", `"` + repeat(`\u017c`) + `"`, ""},
		{"small escaped strings", "[" + repeat(`"\n"`) + "]", ""},
		{"long string", `"` + repeat("a") + `"`, ""},
		{"open string", `"` + repeat("a"), "unexpected-end"},
		{"long comment", "; " + repeat("a") + "\n1", ""},
		{"long symbol", repeat("a"), "invalid-name"},
		{"long tag", "#" + repeat("a") + " 1", "invalid-tag"},
		{"equal keys", "{" + repeat("1 1 ") + "}", "duplicate-key"},
		{"equal members", "#{" + repeat("a ") + "}", "duplicate-member"},
		{"many keys backwards", "{" + keys.String() + "}", ""},
		{"many members backwards", "#{" + members.String() + "}", ""},
		{"large equal keys", "{[" + repeat("1 ")[:n/2] + "] 1 [" + repeat("1 ")[:n/2] + "] 2}", "duplicate-key"},
		{"maps as keys", "[" + strings.Repeat(nested, max(1, n/len(nested))) + "]", ""},
		{"instants", "[" + repeat(`#inst "2026-11-20T10:00:00Z" `) + "]", ""},
		{"uuids", "[" + repeat(`#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" `) + "]", ""},
		{"characters", "[" + repeat(`\a `) + "]", ""},
		{"bad end", "[" + repeat("1 ") + "\xff]", "invalid-utf8"},
	}
}

// VAL-015, section 7: a hostile text is rejected or read with at most 64 bytes
// per node plus twice its length, counting all allocations of the call.
func TestMemoryBound(t *testing.T) {
	lim := edn.Limits{Bytes: 16 << 20, Nodes: 500_000, String: 8 << 20}
	for _, c := range hostile(700_000) {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			v, err := edn.Read(text, edn.WithLimits(lim))
			runtime.ReadMemStats(&after)
			if c.code == "" && err == nil || c.code == "limit-nodes" {
				used := after.TotalAlloc - before.TotalAlloc
				bound := uint64(64*countNodes(c.text) + 2*len(text) + 64<<10)
				assert.LessOrEqual(t, used, bound, "%.1f bytes per node over the text", float64(used-2*uint64(len(text)))/float64(countNodes(c.text)))
			}
			if c.code == "" {
				require.NoError(t, err)
			} else {
				assert.Equal(t, c.code, asSyntaxError(t, err, c.name).Code)
			}
			runtime.KeepAlive(v)
		})
	}
}

// countNodes counts the forms of the texts above, for the memory limit. It
// supports only their syntax.
func countNodes(text string) int {
	n, inString, inToken := 0, false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString:
			if c == '\\' {
				i++
			}
			inString = c != '"'
		case c == '"':
			n++
			inString, inToken = true, false
		case strings.IndexByte(" \n", c) >= 0:
			inToken = false
		case strings.IndexByte("[({", c) >= 0:
			n++
			inToken = false
		case strings.IndexByte("])}", c) >= 0:
			inToken = false
		case c == '#' && i+1 < len(text) && text[i+1] == '{':
		case c == '#' && i+1 < len(text) && text[i+1] == '_':
			i++
		case !inToken:
			n++
			inToken = true
		}
	}
	return n
}

// VAL-007, section 7: reading takes linear time. A text sixteen times as long
// takes at most about sixteen times as long; the bound has a margin for a busy
// machine and for the logarithm of sorting, but excludes quadratic time.
func TestTimeIsLinear(t *testing.T) {
	lim := edn.WithLimits(edn.Limits{Bytes: 16 << 20, Nodes: 4_000_000, String: 8 << 20})
	measure := func(text string) time.Duration {
		best := time.Hour
		for range 3 {
			start := proof.Spent()
			_, err := edn.ReadString(text, lim)
			best = min(best, proof.Spent()-start)
			_ = err // TestMemoryBound checks the code
		}
		return max(best, 50*time.Microsecond)
	}
	small, large := hostile(30_000), hostile(480_000)
	for i, c := range small {
		var a, b time.Duration
		for range 5 { // the best of five, because other work such as garbage collection is measured too
			a, b = measure(c.text), measure(large[i].text)
			if b < 80*a {
				break
			}
		}
		assert.Less(t, b, 80*a, "%s: %v, then %v", c.name, a, b)
	}
}

// Section 7: the reader handles the forms that crash olympos.io/encoding/edn.
func TestForbiddingSizes(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		code string
	}{
		"16 MiB of [":        {strings.Repeat("[", 16<<20), "limit-depth"},
		"16 MiB of #_":       {strings.Repeat("#_", 8<<20), "limit-nodes"},
		"16 MiB of {[":       {strings.Repeat("{[", 8<<20), "limit-depth"},
		"100 MiB string":     {`"` + strings.Repeat("a", 100<<20) + `"`, "limit-bytes"},
		"9 MiB string":       {`"` + strings.Repeat("a", 9<<20) + `"`, "limit-string"},
		"1 MiB of digits":    {strings.Repeat("1", 1<<20), "limit-digits"},
		"4 M nodes in 4 MiB": {"[" + strings.Repeat("1 ", 2<<20) + "]", "limit-nodes"},
	} {
		_, err := edn.ReadString(c.text)
		assert.Equal(t, c.code, asSyntaxError(t, err, name).Code, name)
	}
}
