package extract

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif" // size of images
	_ "image/jpeg"
	_ "image/png"
	"path"
	"strings"
	"unicode/utf8"
)

// magics are the first bytes of common kinds of data.
var magics = []struct{ start, kind string }{
	{"\x89PNG\r\n\x1a\n", "PNG image"},
	{"\xff\xd8\xff", "JPEG image"},
	{"GIF8", "GIF image"},
	{"%PDF-", "PDF document"},
	{"PK\x03\x04", "ZIP archive"},
	{"\x1f\x8b", "gzip data"},
	{"BZh", "bzip2 data"},
	{"\xfd7zXZ\x00", "xz data"},
	{"(\xb5/\xfd", "Zstandard data"},
	{"\x7fELF", "ELF program or library"},
	{"\xcf\xfa\xed\xfe", "Mach-O program or library"},
	{"MZ", "Windows program or library"},
	{"\x00asm", "WebAssembly module"},
	{"SQLite format 3\x00", "SQLite database"},
	{"OggS", "Ogg media"},
	{"ID3", "MP3 audio"},
	{"wOF2", "WOFF2 font"},
	{"wOFF", "WOFF font"},
}

func kindOfData(data []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(data, []byte(m.start)) {
			return m.kind
		}
	}
	if len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "WebP image"
	}
	return "binary data"
}

// facts describes any file.
func facts(f File) (string, error) {
	var b strings.Builder
	switch {
	case len(f.Data) == 0:
		b.WriteString("Empty file.\n")
	case Binary(f.Data):
		binaryFacts(&b, f)
	case f.partial():
		fmt.Fprintf(&b, "%s, %s.\n", languageOf(f), plural(f.size(), "byte"))
	default:
		textFacts(&b, f)
	}
	if f.Exec {
		b.WriteString("executable: yes\n")
	}
	return b.String(), nil
}

func binaryFacts(b *strings.Builder, f File) {
	kind := kindOfData(f.Data)
	size := fmt.Sprintf("%s, %s", kind, plural(f.size(), "byte"))
	if c, _, err := image.DecodeConfig(bytes.NewReader(f.Data)); err == nil {
		size += fmt.Sprintf(", %d x %d pixels", c.Width, c.Height)
	}
	fmt.Fprintf(b, "%s.\n", size)
}

func textFacts(b *strings.Builder, f File) {
	s := string(f.Data)
	fmt.Fprintf(b, "%s, %s, %s.\n", languageOf(f), plural(lines(s), "line"), plural(len(s), "byte"))
	encoding := "UTF-8"
	switch {
	case !utf8.ValidString(s):
		encoding = "not UTF-8"
	case isASCII(s):
		encoding = "ASCII"
	case strings.HasPrefix(s, "\ufeff"):
		encoding = "UTF-8 with a byte order mark"
	}
	fmt.Fprintf(b, "encoding: %s\nline ends: %s\n", encoding, lineEnds(s))
	longest, blank := 0, 0
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\r")))
		if strings.TrimSpace(line) == "" {
			blank++
		}
	}
	fmt.Fprintf(b, "longest line: %s\nblank lines: %d\n", plural(longest, "character"), blank)
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

func lineEnds(s string) string {
	all, crlf := strings.Count(s, "\n"), strings.Count(s, "\r\n")
	switch {
	case all == 0:
		return "none"
	case crlf == 0:
		return "LF"
	case crlf == all:
		return "CRLF"
	}
	return fmt.Sprintf("mixed, %d CRLF of %d", crlf, all)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// languages are the names of languages by the end of a file's name.
var languages = map[string]string{
	".go": "Go", ".md": "Markdown", ".markdown": "Markdown", ".rst": "reStructuredText", ".adoc": "AsciiDoc", ".txt": "Plain text",
	".c": "C", ".h": "C header", ".cc": "C++", ".cpp": "C++", ".hpp": "C++ header", ".rs": "Rust", ".py": "Python", ".rb": "Ruby", ".js": "JavaScript",
	".mjs": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".jsx": "JavaScript", ".java": "Java", ".kt": "Kotlin", ".swift": "Swift",
	".cs": "C#", ".php": "PHP", ".pl": "Perl", ".lua": "Lua", ".sh": "Shell script", ".bash": "Shell script", ".zsh": "Shell script",
	".sql": "SQL", ".proto": "Protocol Buffers", ".html": "HTML", ".css": "CSS", ".xml": "XML", ".svg": "SVG image", ".json": "JSON", ".yaml": "YAML",
	".yml": "YAML", ".toml": "TOML", ".ini": "INI", ".hcl": "HCL", ".tf": "HCL", ".edn": "EDN", ".clj": "Clojure", ".ex": "Elixir", ".erl": "Erlang",
	".hs": "Haskell", ".ml": "OCaml", ".scala": "Scala", ".r": "R", ".jl": "Julia", ".zig": "Zig", ".s": "Assembly", ".tex": "LaTeX", ".csv": "CSV",
	".mod": "Go module", ".sum": "Go checksums", ".diff": "Diff", ".patch": "Diff",
}

// named are the languages of files by their whole name.
var named = map[string]string{
	"Makefile": "Makefile", "makefile": "Makefile", "GNUmakefile": "Makefile", "Dockerfile": "Dockerfile", "LICENSE": "License", "README": "Plain text",
	".gitignore": "Ignore patterns", ".fermentignore": "Ignore patterns", ".dockerignore": "Ignore patterns", "go.mod": "Go module", "go.sum": "Go checksums",
}

// languageOf names the language of a text, by its name or its first line.
func languageOf(f File) string {
	name := path.Base(f.Path)
	if l, ok := named[name]; ok {
		return l
	}
	if l, ok := languages[strings.ToLower(path.Ext(name))]; ok {
		return l
	}
	if first, _, _ := strings.Cut(string(f.Data[:min(len(f.Data), 200)]), "\n"); strings.HasPrefix(first, "#!") {
		words := strings.Fields(first[2:] + " ?")
		if path.Base(words[0]) == "env" && len(words) > 2 {
			words = words[1:]
		}
		return "Script for " + path.Base(words[0])
	}
	return "Text"
}
