package lock

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
)

func hashOf(digit string) string { return "b3:" + strings.Repeat(digit, 64) }

func sample() File {
	return NewFile(
		Plugin{
			Name: "greeter", Version: "0.1.0", Protocol: "ferment.plugin.v1",
			Binaries:     []Binary{{"linux/amd64", "b3:1b02e6c7a9d84f5500112233445566778899aabbccddeeff0011223344556677"}},
			Files:        []Hashed{{"greeter/main.py", "b3:5c3e9d20b7f6418a00aa11bb22cc33dd44ee55ff66778899aabbccddeeff0011"}},
			Capabilities: []Capability{{ID: "demo/greeter", Effects: []string{"none"}, Intents: []string{"text/respond"}}},
		},
		Plugin{
			Name: "chess", Version: "1.0.0", Protocol: "ferment.plugin.v1",
			Binaries: []Binary{{"linux/amd64", "b3:77aa0c1e5f0d4c3b9a8877665544332211ffeeddccbbaa998877665544332211"}},
			Capabilities: []Capability{
				{ID: "chess/rules", Effects: []string{"none"}, Intents: []string{"chess/verify-move", "chess/perft", "chess/perft"}},
				{ID: "chess/engine", Effects: []string{"none"}, Intents: []string{"chess/best-move"}},
			},
		},
	)
}

// HCL-041: the text of the file is independent of the order of its parts.
func TestGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/sample.lock.hcl")
	require.NoError(t, err)
	got, err := sample().Encode()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	back, err := Decode("sample", want)
	require.NoError(t, err)
	again, err := back.Encode()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(again))
}

// HCL-041: Decode reads the output of Encode as the same content; the bytes do
// not depend on the order of construction.
func TestRoundTrip(t *testing.T) {
	word := rapid.StringMatching(`[a-z][a-z0-9.-]{0,6}/[a-z0-9][a-z0-9.+*?_-]{0,8}`)
	hash := rapid.StringMatching(`b3:[0-9a-f]{64}`)
	anyText := rapid.StringN(0, 40, 200).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) })
	hostile := rapid.SampledFrom([]string{"${x}", "%{if}", "$${", "%%{x", `a"b\`, "$", "$$", "%", "line\nbreak", "\u2028", "\U000e0001", "\ufeff", "é", "e\u0301", "<<EOF"})
	words := func(of *rapid.Generator[string]) *rapid.Generator[[]string] {
		return rapid.SliceOfNDistinct(of, 0, 4, rapid.ID)
	}
	capability := rapid.Custom(func(t *rapid.T) Capability {
		return Capability{ID: word.Draw(t, "id"), Effects: words(rapid.SampledFrom(append(contract.Effects(), "none"))).Draw(t, "effects"), Intents: words(word).Draw(t, "intents")}
	})
	plugin := rapid.Custom(func(t *rapid.T) Plugin {
		return Plugin{
			Name: rapid.StringMatching(`[a-z0-9][a-z0-9._+-]{0,12}`).Draw(t, "name"), Version: rapid.OneOf(anyText, hostile).Draw(t, "version"), Protocol: anyText.Draw(t, "protocol"),
			Needs: words(rapid.SampledFrom(contract.Needs())).Draw(t, "needs"),
			Ports: rapid.SliceOfNDistinct(rapid.Uint16Min(1), 0, 3, rapid.ID).Draw(t, "ports"),
			Binaries: rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Binary {
				return Binary{rapid.StringMatching(`[a-z]{1,8}/[a-z0-9_]{1,8}`).Draw(t, "platform"), hash.Draw(t, "hash")}
			}), 0, 3, func(b Binary) string { return b.Platform }).Draw(t, "binaries"),
			Files: rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Hashed {
				return Hashed{rapid.OneOf(anyText, hostile).Filter(func(s string) bool { return s != "" }).Draw(t, "path"), hash.Draw(t, "hash")}
			}), 0, 3, func(h Hashed) string { return h.Path }).Draw(t, "files"),
			Capabilities: rapid.SliceOfNDistinct(capability, 0, 3, func(c Capability) string { return c.ID }).Draw(t, "capabilities"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		plugins := rapid.SliceOfNDistinct(plugin, 0, 4, func(p Plugin) string { return p.Name }).Draw(t, "plugins")
		text, err := NewFile(plugins...).Encode()
		if err != nil {
			t.Fatalf("%v", err)
		}
		back, err := Decode("f", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		again, _ := back.Encode()
		if string(again) != string(text) {
			t.Fatalf("not the same bytes:\n%s\n%s", text, again)
		}
		for i, j := 0, len(plugins)-1; i < j; i, j = i+1, j-1 {
			plugins[i], plugins[j] = plugins[j], plugins[i]
		}
		turned, _ := NewFile(plugins...).Encode()
		if string(turned) != string(text) {
			t.Fatalf("the order matters:\n%s\n%s", text, turned)
		}
		for _, p := range plugins {
			q, ok := back.Plugin(p.Name)
			if !ok || q.Version != p.Version || len(q.Ports) != len(p.Ports) || len(q.Files) != len(p.Files) {
				t.Fatalf("%+v became %+v", p, q)
			}
			for _, f := range p.Files {
				if !contains(q.Files, f) {
					t.Fatalf("%+v lost %+v", q, f)
				}
			}
		}
	})
}

func contains(fs []Hashed, f Hashed) bool {
	for _, x := range fs {
		if x == f {
			return true
		}
	}
	return false
}

const head = "lock {\n  format = 1\n}\n"

func entry(body string) string {
	return head + "plugin \"p\" {\n  version = \"1\"\n  protocol = \"v1\"\n  needs = []\n" + body + "\n}\n"
}

// HCL-010, HCL-041: each error with its type, position and message.
func TestRefusals(t *testing.T) {
	tests := []struct {
		name, text, typ, says string
		line                  int
	}{
		{"empty", "", "config/missing", "lock block is missing", 1},
		{"another kind of file", "ferment {\n  profile = \"dev\"\n}\n\nplugin \"p\" {\n  command = [\"p\"]\n}\n", "config/missing", "lock block is missing", 1},
		{"no format", "lock {\n}\n", "config/missing", "lock has no format", 1},
		{"newer format with new names", "lock {\n  format = 2\n  x = 1\n}\n\nfuture {\n}\n", "config/lock", "newer ferment", 2},
		{"newer format alone", "lock {\n  format = 2\n}\n", "config/lock", "newer ferment", 2},
		{"format of the wrong kind", "lock {\n  format = \"1\"\n}\n", "config/type", "format", 2},
		{"format zero", "lock {\n  format = 0\n}\n", "config/type", "format", 2},
		{"fraction", "lock {\n  format = 1.5\n}\n", "config/syntax", "whole number", 2},
		{"unknown block", head + "plugins \"a\" {\n}\n", "config/unknown-name", "plugins", 4},
		{"unknown attribute", entry("  efects = []"), "config/unknown-name", "efects", 8},
		{"unknown need", strings.Replace(entry(""), "needs = []", `needs = ["net/conect"]`, 1), "config/unknown-name", "net/conect", 7},
		{"unknown effect", entry("capability \"a/b\" {\n  effects = [\"fs/wirte\"]\n  intents = []\n}"), "config/unknown-name", "fs/wirte", 9},
		{"bad intent", entry("capability \"a/b\" {\n  effects = []\n  intents = [\"B\"]\n}"), "config/type", "intents", 10},
		{"bad id", entry("capability \"B\" {\n  effects = []\n  intents = []\n}"), "config/type", "capability", 8},
		{"missing hash", entry("binary \"linux/amd64\" {\n}"), "config/missing", "has no hash", 8},
		{"short hash", entry("binary \"linux/amd64\" {\n  hash = \"b3:00\"\n}"), "config/type", "64 hexadecimal", 9},
		{"upper case hash", entry("binary \"linux/amd64\" {\n  hash = \"b3:" + strings.Repeat("A", 64) + "\"\n}"), "config/type", "64 hexadecimal", 9},
		{"bad platform", entry("binary \"linux\" {\n  hash = \"" + hashOf("0") + "\"\n}"), "config/type", "platform", 8},
		{"file without path", entry("file \"\" {\n  hash = \"" + hashOf("0") + "\"\n}"), "config/type", "path", 8},
		{"plugin without label", head + "plugin {\n}\n", "config/syntax", "label", 4},
		{"label of lock", "lock \"x\" {\n  format = 1\n}\n", "config/syntax", "label", 1},
		{"two labels", head + "plugin \"a\" \"b\" {\n}\n", "config/syntax", "{ or =", 4},
		{"bad name", head + "plugin \"A b\" {\n  version = \"1\"\n  protocol = \"v1\"\n  needs = []\n}\n", "config/type", "name of lower case", 4},
		{"plugin twice", entry("") + "plugin \"p\" {\n}\n", "config/duplicate", "twice", 10},
		{"lock twice", head + head, "config/duplicate", "twice", 4},
		{"attribute twice", entry("  version = \"2\""), "config/duplicate", "twice", 8},
		{"member twice", strings.Replace(entry(""), "needs = []", `needs = ["fs/read", "fs/read"]`, 1), "config/duplicate", "twice", 7},
		{"function", "lock {\n  format = env(\"X\")\n}\n", "config/syntax", "may only contain data", 2},
		{"template", strings.Replace(entry(""), `"1"`, `"${local.x}"`, 1), "config/syntax", "may only contain data", 5},
		{"heredoc", strings.Replace(entry(""), `"1"`, "<<A\nx\nA", 1), "config/syntax", "may only contain data", 5},
		{"operator", "lock {\n  format = 1 + 1\n}\n", "config/syntax", "end of the line", 2},
		{"object", "lock {\n  format = { a = 1 }\n}\n", "config/syntax", "a text, a whole number", 2},
		{"null", "lock {\n  format = null\n}\n", "config/syntax", "a text, a whole number", 2},
		{"one line", "lock { format = 1 }\n", "config/syntax", "end of the line", 1},
		{"open block", "lock {\n  format = 1\n", "config/syntax", "end of the file", 3},
		{"closed twice", head + "}\n", "config/syntax", "a block", 4},
		{"open text", "lock {\n  format = \"1\n}\n", "config/syntax", "end of the text", 2},
		{"open list", strings.Replace(entry(""), "needs = []", "needs = [", 1), "config/syntax", "]", 9},
		{"unknown escape", strings.Replace(entry(""), `"1"`, `"\q"`, 1), "config/syntax", "escape", 5},
		{"surrogate", strings.Replace(entry(""), `"1"`, `"\ud800"`, 1), "config/syntax", "escape", 5},
		{"NUL", head + "\x00", "config/syntax", "UTF-8", 4},
		{"no UTF-8", head + "\xff", "config/syntax", "UTF-8", 1},
		{"brackets", strings.Repeat("[", MaxBytes-1), "config/limit", "tokens", 1},
		{"nested lists", "lock {\n  format = " + strings.Repeat("[", 100_000) + "\n", "config/syntax", "a text in quotes", 2},
		{"nested blocks", strings.Repeat("a {\n", 1000), "config/syntax", "deeper", 3},
		{"signs", "lock {\n  format = " + strings.Repeat("-", 1000) + "1\n}\n", "config/syntax", "a text, a whole number", 2},
		{"too large", strings.Repeat("#", MaxBytes+1), "config/limit", "over the limit", 1},
		{"too many tokens", strings.Repeat("a\n", MaxTokens), "config/limit", "tokens", 1},
		{"long text", strings.Replace(entry(""), `"1"`, `"`+strings.Repeat("x", MaxText+1)+`"`, 1), "config/limit", "over the limit", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode("f.lock.hcl", []byte(tt.text))
			var d *DecodeError
			require.ErrorAs(t, err, &d)
			p := d.Problems[0]
			assert.Equal(t, tt.typ, p.Type, err.Error())
			assert.Contains(t, err.Error(), tt.says)
			assert.Equal(t, tt.line, p.Line, err.Error())
			_, known := contract.Lookup(p.Type)
			assert.True(t, known, p.Type)
			if tt.name == "another kind of file" {
				assert.Len(t, d.Problems, 1)
			}
			assert.LessOrEqual(t, len(err.Error()), 600)
			assert.Equal(t, p.Type, d.Typed().Type)
			for _, p := range d.Problems {
				if strings.Contains(p.Hint, "plugin lock") {
					assert.Contains(t, p.Hint, "remov", "plugin lock does not overwrite what it cannot read")
				}
			}
		})
	}
}

// HCL-002: all problems are reported at once, with the nearest name.
func TestEveryProblem(t *testing.T) {
	_, err := Decode("f", []byte(entry("  versio = \"1\"\n  binary \"linux/amd64\" {\n    hash = \"x\"\n  }\n  capability \"a/b\" {\n    effects = [\"fs/reed\"]\n  }")))
	var d *DecodeError
	require.ErrorAs(t, err, &d)
	require.Len(t, d.Problems, 4, "%v", d.Problems)
	assert.Equal(t, "version", d.Problems[0].Nearest)
	assert.Contains(t, d.Problems[1].Message, "hash has a wrong form")
	assert.Contains(t, d.Problems[2].Message, "has no intents")
	assert.Equal(t, "fs/read", d.Problems[3].Nearest)
	assert.Contains(t, err.Error(), "and 3 more")
}

// CRLF line ends and comments change nothing.
func TestReadsWhatPeopleDoToIt(t *testing.T) {
	text, err := sample().Encode()
	require.NoError(t, err)
	for name, variant := range map[string]string{
		"line ends": strings.ReplaceAll(string(text), "\n", "\r\n"),
		"comments":  strings.ReplaceAll(string(text), "needs    = []", "/* none */ needs = [ // so far\n]"),
		"commas":    strings.ReplaceAll(string(text), `"chess/verify-move"]`, "\n\"chess/verify-move\",\n]"),
	} {
		f, err := Decode(name, []byte(variant))
		require.NoError(t, err, name)
		got, err := f.Encode()
		require.NoError(t, err)
		assert.Equal(t, string(text), string(got), name)
	}
}

// LOCK-001: what exceeds the approval, and what does not.
func TestCompare(t *testing.T) {
	locked := Plugin{
		Name: "p", Version: "1", Protocol: "v1", Needs: []string{"fs/read", "process/run"},
		Binaries:     []Binary{{"linux/amd64", hashOf("a")}},
		Files:        []Hashed{{"main.py", hashOf("b")}},
		Capabilities: []Capability{{ID: "a/b", Effects: []string{"fs/read"}, Intents: []string{"a/x"}}},
	}
	program := []struct {
		name, platform, hash string
		files                []Hashed
		want                 []Level
	}{
		{"the same", "linux/amd64", hashOf("a"), locked.Files, nil},
		{"another program", "linux/amd64", hashOf("c"), locked.Files, []Level{Changed}},
		{"another platform", "linux/arm64", hashOf("a"), locked.Files, []Level{Absent}},
		{"another file", "linux/amd64", hashOf("a"), []Hashed{{"main.py", hashOf("c")}}, []Level{Changed}},
		{"a file less", "linux/amd64", hashOf("a"), nil, []Level{Changed}},
		{"a file more", "linux/amd64", hashOf("a"), append([]Hashed{{"x.py", hashOf("c")}}, locked.Files...), []Level{Changed}},
		{"both", "linux/amd64", hashOf("c"), []Hashed{{"main.py", hashOf("c")}}, []Level{Changed, Changed}},
	}
	for _, tt := range program {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, levels(locked.CompareProgram(tt.platform, "bin/p", tt.hash, tt.files)))
		})
	}
	now := func(change func(*Plugin)) Plugin {
		p := Plugin{Name: "p", Version: "1", Protocol: "v1", Needs: []string{"fs/read", "process/run"}, Capabilities: []Capability{{ID: "a/b", Effects: []string{"fs/read"}, Intents: []string{"a/x"}}}}
		change(&p)
		return p
	}
	description := []struct {
		name   string
		change func(*Plugin)
		want   []Level
	}{
		{"the same", func(*Plugin) {}, nil},
		{"version", func(p *Plugin) { p.Version = "2" }, []Level{Drift}},
		{"protocol", func(p *Plugin) { p.Protocol = "v2" }, []Level{Drift}},
		{"need more", func(p *Plugin) { p.Needs = append(p.Needs, "net/connect") }, []Level{Escalation}},
		{"need other", func(p *Plugin) { p.Needs = []string{"net/connect"} }, []Level{Escalation}},
		{"need less", func(p *Plugin) { p.Needs = p.Needs[:1] }, []Level{Drift}},
		{"ports", func(p *Plugin) { p.Ports = []uint16{443} }, []Level{Escalation}},
		{"effect more", func(p *Plugin) { p.Capabilities[0].Effects = []string{"fs/read", "fs/write"} }, []Level{Escalation}},
		{"effect other", func(p *Plugin) { p.Capabilities[0].Effects = []string{"net/http"} }, []Level{Escalation}},
		{"effect none", func(p *Plugin) { p.Capabilities[0].Effects = []string{"none"} }, []Level{Drift}},
		{"intents", func(p *Plugin) { p.Capabilities[0].Intents = []string{"a/y"} }, []Level{Drift}},
		{"capability gone", func(p *Plugin) { p.Capabilities = nil }, []Level{Drift}},
		{"capability new, harmless", func(p *Plugin) {
			p.Capabilities = append(p.Capabilities, Capability{ID: "a/c", Effects: []string{"none"}})
		}, []Level{Drift}},
		{"capability new, with effects", func(p *Plugin) {
			p.Capabilities = append(p.Capabilities, Capability{ID: "a/c", Effects: []string{"net/http"}})
		}, []Level{Escalation}},
	}
	for _, tt := range description {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, levels(locked.CompareDescription(now(tt.change))))
		})
	}
}

// LOCK-001, ENV-019: the ports of a network need are part of the approval.
func TestComparePorts(t *testing.T) {
	locked := Plugin{Name: "p", Needs: []string{"net/connect"}, Ports: []uint16{443, 8443}}
	for want, ports := range map[Level][]uint16{0: {8443, 443}, Drift: {443}, Escalation: {443, 25}} {
		now := NewFile(Plugin{Name: "p", Needs: locked.Needs, Ports: ports}).Plugins[0]
		ds := locked.CompareDescription(now)
		if want == 0 {
			assert.Empty(t, ds)
			continue
		}
		require.Len(t, ds, 1)
		assert.Equal(t, want, ds[0].Level)
		assert.Equal(t, "443, 8443", ds[0].Locked)
	}
	text, err := NewFile(locked).Encode()
	require.NoError(t, err)
	assert.Contains(t, string(text), `  ports    = ["443", "8443"]`)
	for _, bad := range []string{`["0"]`, `["65536"]`, `["080"]`, `["80", "80"]`, `"80"`, `["x"]`} {
		_, err := Decode("f", []byte(strings.Replace(string(text), `["443", "8443"]`, bad, 1)))
		assert.Error(t, err, bad)
	}
}

func levels(ds []Difference) []Level {
	var out []Level
	for _, d := range ds {
		out = append(out, d.Level)
	}
	return out
}

// LOCK-001: the error contains the expected and the actual value, the path, and
// the command that resolves it.
func TestDifferencesSayEverything(t *testing.T) {
	locked := sample()
	chess, _ := locked.Plugin("chess")
	d := chess.CompareProgram("linux/amd64", "bin/plugins/chess", hashOf("0"), nil)[0]
	assert.Equal(t, `:config/lock: plugin "chess": bin/plugins/chess is not the file that was approved: expected `+chess.Binaries[0].Hash+", found "+hashOf("0"), d.Err().Error())
	shown := d.Err().Value().String()
	for _, part := range []string{chess.Binaries[0].Hash, hashOf("0"), "bin/plugins/chess", "ferment plugin lock"} {
		assert.Contains(t, shown, part)
	}
	more := chess.CompareDescription(Plugin{Name: "chess", Version: "1.0.0", Protocol: "ferment.plugin.v1", Needs: []string{"net/connect"}, Capabilities: chess.Capabilities})
	require.Len(t, more, 1)
	assert.Equal(t, `:config/lock: plugin "chess": its needs go beyond what was approved: expected none, found net/connect`, more[0].Err().Error())
	assert.Contains(t, more[0].Err().Value().String(), "ferment plugin approve chess")
	assert.Equal(t, `:config/lock: plugin "x": it is not in the lock file`, NotLocked("x").Err().Error())
}

func TestFileValue(t *testing.T) {
	f := sample()
	_, ok := f.Plugin("nobody")
	assert.False(t, ok)
	p, ok := f.Plugin("chess")
	require.True(t, ok)
	changed := f.With(p.WithBinary("darwin/arm64", hashOf("1")))
	q, _ := changed.Plugin("chess")
	assert.Equal(t, []string{"darwin/arm64", "linux/amd64"}, []string{q.Binaries[0].Platform, q.Binaries[1].Platform})
	assert.Len(t, p.Binaries, 1, "the first entry is as it was")
	same, _ := f.Plugin("chess")
	assert.Len(t, same.Binaries, 1)
	assert.True(t, ValidPlatform("linux/arm64"))
	for _, bad := range []string{"", "linux", "linux/", "/amd64", "Linux/amd64", "a/b/c"} {
		assert.False(t, ValidPlatform(bad), bad)
	}
}

// Encode rejects a content that Decode would reject.
func TestEncodeRefuses(t *testing.T) {
	var many []Plugin
	for i := range MaxPlugins + 1 {
		many = append(many, Plugin{Name: fmt.Sprintf("p%d", i), Version: "1", Protocol: "v1"})
	}
	for name, f := range map[string]File{
		"too many":   NewFile(many...),
		"bad hash":   NewFile(Plugin{Name: "p", Binaries: []Binary{{"linux/amd64", "b3:0"}}}),
		"no UTF-8":   NewFile(Plugin{Name: "p", Files: []Hashed{{"a\xffb", hashOf("0")}}}),
		"wrong need": NewFile(Plugin{Name: "p", Needs: []string{"all"}}),
	} {
		_, err := f.Encode()
		assert.Error(t, err, name)
	}
}

// HCL-044: any bytes are decoded or rejected, and decoded content is encoded as
// the same content.
func FuzzDecode(f *testing.F) {
	text, err := sample().Encode()
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(head))
	f.Add([]byte(entry("file \"\\u0024{x}\" {\n  hash = \"" + hashOf("0") + "\"\n}")))
	f.Add([]byte("lock {\n  format = [[[\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4096 {
			return
		}
		file, err := Decode("f", text)
		if err != nil {
			var d *DecodeError
			require.ErrorAs(t, err, &d)
			require.NotEmpty(t, d.Problems)
			return
		}
		first, err := file.Encode()
		require.NoError(t, err)
		back, err := Decode("f", first)
		require.NoError(t, err)
		second, err := back.Encode()
		require.NoError(t, err)
		require.Equal(t, string(first), string(second))
	})
}
