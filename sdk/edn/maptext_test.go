package edn_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/edn"
)

// ISO-005: MapText applies f to every text of a value.
func TestMapTextReachesEveryText(t *testing.T) {
	hide := func(s string) string { return strings.ReplaceAll(s, "1234", "X") }
	for in, want := range map[string]string{
		`"a1234b"`:                             `"aXb"`,
		`:k1234`:                               `":kX"`,
		`:ns1234/k`:                            `":nsX/k"`,
		`s1234`:                                `"sX"`,
		`12345`:                                `"X5"`,
		`0.12345M`:                             `"0.X5M"`,
		`#t1234/x 7`:                           `"tX/x"`,
		`#t/x "1234"`:                          `#t/x "X"`,
		`{"1234" :v, :k "1234"}`:               `{:k "X", "X" :v}`,
		`{:a {:b1234 [1 #{"1234"} ("1234")]}}`: `{:a {":bX" [1 #{"X"} ("X")]}}`,
		`{"1234" 1, "X" 2}`:                    `{"X" 2, "\"X\" 2" 1}`,
		`{:a nil, :b [true 1]}`:                `{:a nil, :b [true 1]}`,
	} {
		got := edn.MustRead(in).MapText(hide)
		assert.NotContains(t, got.String(), "1234", in)
		if want != "" && !strings.Contains(in, `"X"`) {
			assert.True(t, edn.Equal(edn.MustRead(want), got), "%s: %s", in, got)
		}
	}
	two := edn.MustRead(`{"1234" 1, "X" 2, "12341234" 3}`).MapText(func(string) string { return "X" })
	assert.Equal(t, 3, two.Len(), "%s", two)
	assert.Equal(t, 2, edn.MustRead(`#{"1234" "X"}`).MapText(func(string) string { return "X" }).Len())
}
