package view_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

const ugly = "\xef\xbb\xbf\n\n# head\r\nferment {\r\nseed=1 # one\r\n  max_depth    =   3\r\n\r\n\r\n  mode = \"lazy\"\r\n}\r\n// second\r\nlocals{\n/* kept\n\n\n   as it is */\n  a = <<EOT\n  two\n\n\n  lines  \nEOT\n  b = [1,2,\n  3]   \n  c = {x=1,y=\"${local.a}\"}\n}\nplugin \"chess\" {\n  command=[\"bin/chess\"]\n  config { depth=3 }\n  restart { max=1 }\n  # about health\n  health { misses=1 }\n}\n\n\n\ncheck \"a\" { builtin=\"max-chars\" }"

const pretty = `# head
ferment {
  seed      = 1 # one
  max_depth = 3

  mode = "lazy"
}

// second
locals {
  /* kept


   as it is */
  a = <<EOT
  two


  lines  
EOT
  b = [1, 2,
  3]
  c = { x = 1, y = "${local.a}" }
}

plugin "chess" {
  command = ["bin/chess"]
  config { depth = 3 }

  restart { max = 1 }

  # about health
  health { misses = 1 }
}

check "a" { builtin = "max-chars" }
`

// HCL-038: canonical spacing, LF, one blank line between blocks, never two in a
// row; comments and order are kept; formatting is idempotent.
func TestFormat(t *testing.T) {
	f := view.Format("ferment.hcl", []byte(ugly))
	require.Empty(t, f.Diagnostics)
	assert.True(t, f.Changed())
	assert.Equal(t, pretty, string(f.After))
	again := view.Format("ferment.hcl", f.After)
	assert.False(t, again.Changed())
	assert.Empty(t, again.Diff())

	bad := view.Format("ferment.hcl", []byte("a = {\n"))
	assert.True(t, bad.Diagnostics.HasErrors())
	assert.False(t, bad.Changed())

	deep := view.Format("ferment.hcl", []byte("a = "+strings.Repeat("[", 1000)))
	assert.Equal(t, []string{"config/limit"}, configtest.Types(deep.Diagnostics))
}

// HCL-038: the value of the file is unchanged: it loads to the same hash with
// the same problems.
func TestFormatKeepsTheValue(t *testing.T) {
	files, err := filepath.Glob("../testdata/diag/*.hcl")
	require.NoError(t, err)
	texts := []string{configtest.Sample, ugly, configtest.Large()}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		texts = append(texts, string(raw))
	}
	for _, text := range texts {
		f := view.Format("x", []byte(text))
		if f.Diagnostics.HasErrors() {
			continue
		}
		before, dsBefore := configtest.Load(t, text)
		after, dsAfter := configtest.Load(t, string(f.After))
		assert.Equal(t, before.Hash, after.Hash)
		assert.Equal(t, len(dsBefore), len(dsAfter))
		assert.Equal(t, string(f.After), string(view.Format("x", f.After).After))
	}
}

// HCL-038: formatting is idempotent on files of random pieces.
func TestFormatIdempotent(t *testing.T) {
	pieces := []string{"a = 1\n", "b=[1,\n2]\n", "\n", "\n\n\n", "# c\n", "  // d\n", "/* e\n\n f */\n", "x \"l\" {\n", "}\n", "y{\n", "s = \"${ a }\"\n", "h = <<EOT\n  a\n\n${b}\nEOT\n", "h2 = <<-EOT\n    a\n\n    %{ if b }x%{ endif }\n  EOT\n", "o = {\na=1\n\n\nb = 2 }\n", "one { a=1 }\n", "t = a?b:c # x\n", "f = foo( 1,2 )\n", "\r\n", "   \n", "\t", "for = [ for x in y : x if x>1 ]\n"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 25).Draw(t, "pieces"), "")
		f := view.Format("x", []byte(text))
		if f.Diagnostics.HasErrors() {
			return
		}
		again := view.Format("x", f.After)
		if again.Diagnostics.HasErrors() || string(again.After) != string(f.After) {
			t.Fatalf("%q became %q, then %q", text, f.After, again.After)
		}
		if strings.Contains(string(f.After), "\r") || len(f.After) > 0 && !strings.HasSuffix(string(f.After), "\n") {
			t.Fatalf("%q became %q", text, f.After)
		}
	})
}

// HCL-012, HCL-038: JSON is indented by two spaces per level; the order of keys and
// the spelling of strings and numbers are kept.
func TestFormatJSON(t *testing.T) {
	text := "\xef\xbb\xbf\r\n {\"//\":\"a \\u0041 \\/\",\"locals\":{\"z\":1.50,\r\n\"a\":[ ],\"o\":{ },\"n\":1e3,\"t\":[true,null,\"${ 1+1 }\"]}}\r\n\r\n"
	want := `{
  "//": "a \u0041 \/",
  "locals": {
    "z": 1.50,
    "a": [],
    "o": {},
    "n": 1e3,
    "t": [
      true,
      null,
      "${ 1+1 }"
    ]
  }
}
`
	for _, name := range []string{"site.hcl.json", "-"} {
		f := view.Format(name, []byte(text))
		require.Empty(t, f.Diagnostics)
		assert.Equal(t, want, string(f.After))
		assert.False(t, view.Format(name, f.After).Changed())
	}
	assert.Equal(t, "[\n  {}\n]\n", string(view.Format("-", []byte("[{}]")).After))
	for input, typ := range map[string]string{
		"{": "config/syntax", "{} {}": "config/syntax", "{\"a\":1,}": "config/syntax", "{\"a\":1,\"a\":1}": "config/syntax", "{\"a\":tru}": "config/syntax", "{\"a\":\"\\q\"}": "config/syntax",
		"{\"a\":" + strings.Repeat("[", 100): "config/limit",
	} {
		f := view.Format("x.hcl.json", []byte(input))
		require.True(t, f.Diagnostics.HasErrors(), input)
		assert.Equal(t, typ, f.Diagnostics[0].Type, input)
		assert.False(t, f.Changed(), "what cannot be read is left alone")
	}
}

// HCL-038: the value of a JSON file is unchanged.
func TestFormatJSONKeepsTheValue(t *testing.T) {
	loaded := func(text string) (*config.Config, diag.Diagnostics) {
		dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl.json": text})
		return configtest.LoadDir(t, dir+"/ferment.hcl.json", config.Options{Env: configtest.SecretEnv("s")})
	}
	before, dsBefore := loaded(configtest.JSONSample)
	f := view.Format("ferment.hcl.json", []byte(configtest.JSONSample))
	require.True(t, f.Changed())
	after, dsAfter := loaded(string(f.After))
	require.NotEmpty(t, before.Hash)
	assert.Equal(t, before.Hash, after.Hash)
	assert.Equal(t, configtest.Types(dsBefore), configtest.Types(dsAfter))
}

// HCL-038: formatting is idempotent, and the JSON value is unchanged. Characters
// that combine with the next one are excluded: the library treats one before a
// quote, such as U+0600, and the quote as one character and finds no end of the
// string.
func TestFormatJSONIdempotent(t *testing.T) {
	letters := rapid.SampledFrom([]rune("aZ09 \t\n\"\\/<>&{}[]:,#$%éßжא漢字😀\u0301\u2028"))
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{rapid.StringOfN(letters, 0, 8, -1).AsAny(), rapid.Int().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil)}
		if depth == 0 {
			return rapid.OneOf(leaves...)
		}
		inner := rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) })
		return rapid.OneOf(append(leaves, rapid.MapOfN(rapid.StringMatching("[a-z]{0,4}"), inner, 0, 4).AsAny(), rapid.SliceOfN(inner, 0, 4).AsAny())...)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOfN(rapid.StringMatching("[a-z]{0,4}"), value(3), 0, 4).Draw(t, "value")
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		f := view.Format("x.json", text)
		if f.Diagnostics.HasErrors() {
			t.Fatalf("%s: %v", text, f.Diagnostics)
		}
		if again := view.Format("x.json", f.After); again.Changed() {
			t.Fatalf("%q became %q, then %q", text, f.After, again.After)
		}
		var small bytes.Buffer
		if err := json.Compact(&small, f.After); err != nil || !bytes.Equal(small.Bytes(), text) {
			t.Fatalf("%q became %q", text, f.After)
		}
	})
}

// HCL-038: files are replaced atomically and keep their mode; a symbolic link is
// kept; in a read-only directory the file is unchanged (HCL-010).
func TestFormatFile(t *testing.T) {
	path := configtest.Write(t, ugly)
	require.NoError(t, os.Chmod(path, 0o640))
	link := filepath.Join(filepath.Dir(path), "link.hcl")
	require.NoError(t, os.Symlink(path, link))
	f, err := view.FormatFileAs(link, link)
	require.NoError(t, err)
	require.True(t, f.Changed())
	require.NoError(t, f.Write())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, pretty, string(got))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 3, "no temporary file is left")

	_, err = view.FormatFileAs("nowhere.hcl", filepath.Join(t.TempDir(), "nowhere.hcl"))
	require.Error(t, err)
	f.Path = filepath.Join(t.TempDir(), "nowhere.hcl")
	require.Error(t, f.Write())
}

// HCL-008: the difference as a unified diff.
func TestDiff(t *testing.T) {
	f := view.Format("x.hcl", []byte("a=1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\nh = 8\ni = 9\nj = 10\nk=11"))
	assert.Equal(t, `--- x.hcl
+++ x.hcl
@@ -1,4 +1,4 @@
-a=1
+a = 1
 b = 2
 c = 3
 d = 4
@@ -8,4 +8,4 @@
 h = 8
 i = 9
 j = 10
-k=11
\ No newline at end of file
+k = 11
`, f.Diff())
}

// HCL-043: formatting against the formatter of the library.
func BenchmarkFormat(b *testing.B) {
	text := []byte(configtest.Large())
	b.Run("format", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if f := view.Format("x", text); f.Diagnostics.HasErrors() {
				b.Fatal("errors")
			}
		}
	})
	b.Run("hclwrite", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			hclwrite.Format(text)
		}
	})
}

// HCL-010: no input makes the loader or the formatter panic, and formatting is
// idempotent.
func FuzzHCL(f *testing.F) {
	for _, s := range []string{configtest.Sample, ugly, pretty, "x = " + strings.Repeat("[", 100), "a { x = 1, y = 2 }", "locals {\n a = local.a\n}", "schema \"a/b\" {\n spec = edn(<<EOT\n[\nEOT\n)\n}", "plugin \"chess\" {\n command = [\"bin/chess\"]\n config {\n model \"a\" {}\n extra { a = 1 }\n }\n}"} {
		f.Add(s)
	}
	files, err := filepath.Glob("../testdata/diag/*.hcl")
	require.NoError(f, err)
	for _, file := range files {
		if strings.Contains(file, "limit-steps") {
			continue // a second of work per run
		}
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(raw))
	}
	dir := f.TempDir()
	require.NoError(f, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
	require.NoError(f, os.WriteFile(filepath.Join(dir, "bin", "chess"), []byte("x"), 0o755))
	path := filepath.Join(dir, "ferment.hcl")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 8<<10 {
			return
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		c, ds := config.Load(context.Background(), path, config.Options{Env: configtest.NoEnv, Describer: configtest.Describer{"chess": configtest.Chess(), "stockfish": configtest.Chess(), "second": configtest.Chess()}})
		_ = c.Report(0).Text(false)
		if _, err := c.Report(0).JSON(); err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if d.Range != nil && d.Range.Start.Line > 0 && (d.Range.Start.Byte > len(text) || d.Range.End.Byte < d.Range.Start.Byte) {
				t.Fatalf("range %v outside the text", d.Range)
			}
		}
		if (c.Generation == nil) != ds.HasErrors() {
			t.Fatal("a generation with errors, or none without")
		}
		formatted := view.Format("x", []byte(text))
		if formatted.Diagnostics.HasErrors() {
			return
		}
		if again := view.Format("x", formatted.After); again.Diagnostics.HasErrors() || string(again.After) != string(formatted.After) {
			t.Fatalf("not idempotent: %q, %q", formatted.After, again.After)
		}
	})
}
