package quality

import (
	"path"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/quality/goapi"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// hallucinated is the error type, and the violation, by which an answer declares that it
// contains invented APIs.
const hallucinated = "hallucinated/api"

// checkAPIs reports packages and names that do not exist in Go's standard library or in the
// packages of `:context :api/index`, a map from paths to names.
func checkAPIs(s Subject) Outcome {
	intent, _ := s.Request.Key("intent").AsKeyword()
	if !about(intent, respond, solve, explain, review, generate, patch) {
		return NotApplicable("the check is not about :" + intent)
	}
	if f, ok := declared(s.Result); ok {
		return Failed(f)
	}
	index := indexOf(s.Request.Key("context").Key("api/index"))
	var fs []Finding
	judged := false
	for _, p := range programs(s) {
		if !p.isGo && len(index) == 0 {
			continue
		}
		judged = true
		fs = append(fs, p.check(index)...)
	}
	switch {
	case !judged:
		return NotApplicable("the answer has no code whose names are known")
	case len(fs) > 0:
		return Failed(fs...)
	}
	return Passed()
}

// declared returns the finding for an answer that itself declares an invented API.
func declared(out edn.Value) (Finding, bool) {
	said := Finding{Message: "the answer declares that it uses an API that does not exist", Fix: "use what exists"}
	for _, v := range [...]edn.Value{out.Key("error").Key("type"), out.Key("error/type"), out.Key("type")} {
		if word, _ := v.AsKeyword(); word == hallucinated {
			return said, true
		}
	}
	if out.Key("hallucinated-apis").Len() > 0 {
		said.Path = textPath("hallucinated-apis")
		return said, true
	}
	for v := range out.Key("violations").Elems() {
		word, ok := v.AsKeyword()
		if !ok {
			word, _ = v.Key("type").AsKeyword()
		}
		if word == hallucinated {
			said.Path = textPath("violations")
			return said, true
		}
	}
	return Finding{}, false
}

func indexOf(v edn.Value) goapi.Index {
	if v.Kind() != edn.KindMap {
		return nil
	}
	out := goapi.Index{}
	for k, names := range v.Entries() {
		known := map[string]bool{}
		if isSequence(names) {
			for n := range names.Elems() {
				known[plainWord(n)] = true
			}
		}
		out[plainWord(k)] = known
	}
	return out
}

func plainWord(v edn.Value) string {
	if s, ok := v.AsString(); ok {
		return s
	}
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	return strings.TrimPrefix(v.String(), ":")
}

// program is a piece of code in an answer.
type program struct {
	key   string
	whole string // the text that contains it
	at    int    // its offset in whole
	code  string
	isGo  bool
}

func (p program) check(index goapi.Index) []Finding {
	var fs []Finding
	add := func(start, end int, message string) {
		fs = append(fs, Finding{Path: textPath(p.key), Message: message, Fix: "use what exists",
			Range: characters(p.whole, text.Span{Start: p.at + start, End: p.at + end})})
	}
	if p.isGo {
		for _, u := range goapi.Check(p.code, index) {
			if u.Name == "" {
				add(u.Start, u.End, "there is no package "+u.Package)
			} else {
				add(u.Start, u.End, "package "+u.Package+" has no "+u.Name)
			}
		}
		return fs
	}
	for _, u := range unknownNames(p.code, index) {
		add(u.Start, u.End, u.Package+" has no "+u.Name)
	}
	return fs
}

// unknownNames finds selectors that an index does not list for their package or
// type.
func unknownNames(code string, index goapi.Index) []goapi.Unknown {
	modules := map[string]string{}
	for p := range index {
		modules[strings.TrimSuffix(path.Base(strings.ReplaceAll(p, ".", "/")), ".js")] = p
	}
	var out []goapi.Unknown
	words := text.Words(code)
	for i := 1; i < len(words) && len(out) < 10; i++ {
		on, name := words[i-1], words[i]
		p, known := modules[on.In(code)]
		if !known || code[on.End:name.Start] != "." || on.Start > 0 && code[on.Start-1] == '.' || index[p][name.In(code)] {
			continue
		}
		out = append(out, goapi.Unknown{Start: on.Start, End: name.End, Package: p, Name: name.In(code)})
	}
	return out
}

// programs returns the code of an answer: the values under :code, the lines
// that a patch adds, and the fenced blocks of a text.
func programs(s Subject) []program {
	var out []program
	language, _ := s.Request.Key("input").Key("language").AsString()
	if word, ok := s.Request.Key("input").Key("language").AsKeyword(); ok {
		language = word
	}
	for _, key := range [...]string{"text", "content", "answer", "explanation", "code", "patch"} {
		whole, ok := s.Result.Key(key).AsString()
		if !ok {
			continue
		}
		switch key {
		case "patch":
			out = append(out, program{key, whole, 0, added(whole),
				strings.Contains(whole, ".go\n") || strings.Contains(whole, ".go\t")})
			continue
		case "code":
			if !strings.Contains(whole, "```") {
				out = append(out, program{key, whole, 0, whole, isGo(language, whole)})
				continue
			}
		}
		code, _ := text.Code(whole)
		for _, c := range code {
			block := c.In(whole)
			head, body, found := strings.Cut(block, "\n")
			if !found || strings.HasPrefix(block, "`") && !strings.HasPrefix(block, "```") {
				continue
			}
			info := strings.Fields(strings.TrimLeft(strings.TrimSpace(head), "`~"))
			named := language
			if len(info) > 0 {
				named = info[0]
			}
			out = append(out, program{key, whole, c.Start + len(head) + 1, unfenced(body), isGo(named, body)})
		}
	}
	return out
}

// unfenced cuts the closing line of a fence.
func unfenced(body string) string {
	trimmed := strings.TrimRight(body, " \t\r\n")
	return strings.TrimRight(trimmed, "`~")
}

func isGo(language, code string) bool {
	switch strings.ToLower(language) {
	case "go", "golang":
		return true
	case "":
		return strings.HasPrefix(strings.TrimSpace(code), "package ") && !strings.Contains(code, ";\n") ||
			strings.Contains(code, "func ") && strings.Contains(code, ":=")
	}
	return false
}

// added keeps the lines that a patch adds and replaces the others by blanks, so
// that positions stay the same.
func added(patch string) string {
	b := []byte(patch)
	begin := 0
	for begin < len(b) {
		end := begin
		for end < len(b) && b[end] != '\n' {
			end++
		}
		keep := b[begin] == '+' && !strings.HasPrefix(patch[begin:end], "+++")
		for i := begin; i < end; i++ {
			if !keep || i == begin {
				b[i] = ' '
			}
		}
		begin = end + 1
	}
	return string(b)
}
