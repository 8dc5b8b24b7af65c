package files

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

func readEnv(text string) (map[string]string, diag.Diagnostics) {
	report := diag.NewCollector(diag.Sources{})
	got := map[string]string{}
	for k, v := range parseEnv(diag.NewSource("x.env", "/x.env", 0, []byte(text)), report) {
		got[k] = v.value
	}
	return got, report.Result()
}

// HCL-017: valid lines.
func TestEnvLines(t *testing.T) {
	for line, want := range map[string]map[string]string{
		"A=b":                           {"A": "b"},
		"  export A = b c  ":            {"A": "b c"},
		"export\tA=b":                   {"A": "b"},
		"exportA=b":                     {"exportA": "b"},
		"export=b":                      {"export": "b"},
		"_a1=":                          {"_a1": ""},
		"A=b # comment":                 {"A": "b"},
		"A=b#c":                         {"A": "b#c"},
		"A=#c":                          {"A": ""},
		"A= # c":                        {"A": ""},
		"A='b # $C \\n \"'":             {"A": `b # $C \n "`},
		"A='' # c":                      {"A": ""},
		`A="b\n\t\"\\ # ' ${C}" # c`:    {"A": "b\n\t\"\\ # ' ${C}"},
		"A=b=c":                         {"A": "b=c"},
		"A=$B":                          {"A": "$B"},
		"A=b\\":                         {"A": "b\\"},
		"":                              {},
		"   ":                           {},
		"# A=b":                         {},
		"  # A=b":                       {},
		"A=ż\r\nB='ó'\r\n":              {"A": "ż", "B": "ó"},
		"\xef\xbb\xbfA=b":               {"A": "b"},
		"A=1\n\n# x\nexport B=2\nC='3'": {"A": "1", "B": "2", "C": "3"},
	} {
		got, ds := readEnv(line)
		assert.Empty(t, ds, "%q", line)
		assert.Equal(t, want, got, "%q", line)
	}
}

// FuzzEnv: any text is parsed or rejected; a parsed name is a valid variable name,
// and an error has a place in the file (HCL-017).
func FuzzEnv(f *testing.F) {
	for _, s := range []string{"A=b", "export A='x'\n# c\nB=\"\\n\"", "A", "=", "A=\"", "A='\n", "A=1\nA=2", "export\t A = b # c", "\xef\xbb\xbfA=\r\n", "A=\x00", "ż=1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 4096 {
			return
		}
		s := diag.NewSource("x.env", "/x.env", 0, raw)
		report := diag.NewCollector(diag.Sources{})
		vars := parseEnv(s, report)
		for key, v := range vars {
			if !language.IsVariableName(key) || v.At.Start.Line < 1 {
				t.Fatalf("%q at %v", key, v.At)
			}
		}
		for _, d := range report.Result() {
			if d.Range == nil || d.Range.Start.Byte > len(raw) {
				t.Fatalf("%v", d)
			}
		}
	})
}
