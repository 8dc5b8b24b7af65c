package quality

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Names of the checks of texts (TXT-007).
const (
	NoTruncatedEnding  = "no-truncated-ending"
	NoListExpansion    = "no-list-expansion"
	SufficientDetail   = "sufficient-detail"
	NoHallucinatedAPIs = "no-hallucinated-apis"
	LanguageMatch      = "language-match"
	NumbersFromSource  = "numbers-from-source"
	QuotesFromSource   = "quotes-from-source"
	NoThinkLeak        = "no-think-leak"
	NoToolLeak         = "no-tool-leak"
	NoPromptLeak       = "no-prompt-leak"
	NoSecret           = "no-secret"
)

// Intents of the default configuration, by the kind of text that they ask for.
const (
	respond   = "text/respond"
	summarize = "context/summarize"
	solve     = "problem/solve"
	explain   = "code/explain"
	review    = "code/review"
	generate  = "code/generate"
	patch     = "code/patch"
)

// structured are default intents whose answers are not texts for people.
var structured = []string{"eval/grade", "route/classify", "route/decide", "chess/best-move", "sat/solve", "text/render"}

// about reports whether a check that is meant for some of the default intents applies to an
// intent. It applies to every intent that an operator defines.
func about(intent string, meant ...string) bool {
	if slices.Contains(meant, intent) {
		return true
	}
	switch intent {
	case respond, summarize, solve, explain, review, generate, patch:
		return false
	}
	return !slices.Contains(structured, intent)
}

// textChecks are pure: the same subject gives the same outcome (TXT-008).
func textChecks(languages *text.Packs) []Check {
	t := texts{languages}
	prose := []string{respond, summarize, solve, explain, review}
	return []Check{
		t.check(NoTruncatedEnding, []string{respond, summarize, solve, explain}, checkEnding),
		t.check(NoListExpansion, []string{respond, summarize}, func(c *said) []text.Remark { return c.languages.CheckList(c.text, c.request(), c.language()) }),
		// A blank answer has no text and no detail.
		builtin(SufficientDetail, t.checkDetail),
		builtin(NoHallucinatedAPIs, checkAPIs),
		t.check(LanguageMatch, prose, checkLanguage),
		t.check(NumbersFromSource, []string{summarize}, func(c *said) []text.Remark { return c.languages.CheckNumbers(c.text, c.source(), c.language()) }),
		t.check(QuotesFromSource, []string{summarize}, func(c *said) []text.Remark { return text.CheckQuotes(c.text, c.source()) }),
		t.check(NoThinkLeak, prose, func(c *said) []text.Remark { return text.CheckReasoning(c.text) }),
		t.check(NoToolLeak, prose, func(c *said) []text.Remark { return text.CheckTools(c.text) }),
		t.check(NoPromptLeak, prose, checkPrompt),
		builtin(NoSecret, checkSecrets),
	}
}

func builtin(name string, f Func) Check {
	return Check{
		Check: registry.Check{Name: name, Kind: registry.CheckBuiltin, Builtin: name},
		Judge: f,

		ParamsSchema: noParams,
	}
}

var noParams = edn.MustRead("[:map {:closed true}]")

// texts holds the languages in which texts are judged; nil means the built-in ones.
type texts struct{ languages *text.Packs }

// said is the text of an answer with its request.
type said struct {
	Subject
	texts
	key, text string
	none      string // reason why the check does not apply; empty: it applies
}

// check makes a check of the text of an answer.
func (t texts) check(name string, intents []string, f func(*said) []text.Remark) Check {
	return builtin(name, func(s Subject) Outcome {
		intent, _ := s.Request.Key("intent").AsKeyword()
		if !about(intent, intents...) {
			return NotApplicable("the check is not about :" + intent)
		}
		c := said{Subject: s, texts: t}
		var ok bool
		if c.key, c.text, ok = Text(s.Result); !ok || c.key == "code" || c.key == "patch" {
			return NotApplicable("the answer has no text")
		}
		remarks := f(&c)
		if c.none != "" {
			return NotApplicable(c.none)
		}
		return c.outcome(remarks)
	})
}

func (c *said) outcome(remarks []text.Remark) Outcome {
	if len(remarks) == 0 {
		return Passed()
	}
	fs := make([]Finding, len(remarks))
	for i, r := range remarks {
		fs[i] = Finding{Path: textPath(c.key), Message: r.Message, Fix: r.Fix, Range: characters(c.text, r.Span)}
	}
	return Failed(fs...)
}

// characters returns the start and the end of a span of s in code points.
func characters(s string, span text.Span) [2]int {
	begin := utf8.RuneCountInString(s[:span.Start])
	return [2]int{begin, begin + utf8.RuneCountInString(span.In(s))}
}

// language returns the language that the request names, else that of the text.
func (c *said) language() string {
	if want := c.wanted(); want != "" {
		return want
	}
	found, _ := c.languages.Detect(text.Prose(c.text))
	return found
}

// wanted returns the language that the request names.
func (c *said) wanted() string {
	v := c.Request.Key("constraints").Key("language")
	if word, ok := v.AsKeyword(); ok {
		return word
	}
	word, _ := v.AsString()
	return word
}

// request returns the text of the request.
func (c *said) request() string { return RequestText(c.Request.Key("input")) }

// RequestText returns the main text of an input: a string, the first non-blank text under
// its text keys, or its last user message; empty if there is none.
func RequestText(input edn.Value) string {
	if s, ok := input.AsString(); ok {
		return s
	}
	for _, key := range [...]string{"prompt", "text", "content", "problem", "task", "question"} {
		if s, ok := input.Key(key).AsString(); ok && strings.TrimSpace(s) != "" {
			return s
		}
	}
	last := ""
	for m := range input.Key("messages").Elems() {
		if role, _ := m.Key("role").AsKeyword(); role == "user" {
			last, _ = m.Key("content").AsString()
		}
	}
	return last
}

// source returns every text in the request.
func (c *said) source() string {
	var b strings.Builder
	gather(&b, c.Request.Key("input"), 0)
	gather(&b, c.Request.Key("context"), 0)
	return b.String()
}

// deepest bounds the depth of the search for texts.
const deepest = 32

func gather(b *strings.Builder, v edn.Value, depth int) {
	switch v.Kind() {
	case edn.KindString:
		s, _ := v.AsString()
		b.WriteString(s)
		b.WriteByte('\n')
	case edn.KindInt, edn.KindDecimal, edn.KindFloat:
		b.WriteString(v.String())
		b.WriteByte('\n')
	case edn.KindMap:
		if depth < deepest {
			for _, e := range v.Entries() {
				gather(b, e, depth+1)
			}
		}
	case edn.KindVector, edn.KindList, edn.KindSet:
		if depth < deepest {
			for e := range v.Elems() {
				gather(b, e, depth+1)
			}
		}
	}
}

// checkEnding reports an incomplete ending. It accepts a text that the host cut at a
// sentence because it was too long (TXT-005), unless the model had stopped at its token
// limit before.
func checkEnding(c *said) []text.Remark {
	end := len(c.text)
	cut, _ := c.Meta.Key("text/cut?").AsBool()
	switch {
	case finishOf(c.Subject) == finishLength:
		return []text.Remark{{Span: text.Span{Start: end, End: end}, Message: "the answer reached its limit of tokens",
			Fix: "answer more briefly"}}
	case cut && strings.HasSuffix(c.text, "…"):
		return []text.Remark{{Span: text.Span{Start: end - len("…"), End: end},
			Message: "the text was cut between two words to fit its limit", Fix: "answer more briefly"}}
	}
	return c.languages.CheckEnding(c.text, c.language())
}

func (t texts) checkDetail(s Subject) Outcome {
	intent, _ := s.Request.Key("intent").AsKeyword()
	if !about(intent, respond) {
		return NotApplicable("the check is not about :" + intent)
	}
	c := said{Subject: s, texts: t}
	var ok bool
	if c.key, c.text, ok = Text(s.Result); !ok {
		return Failed(Finding{Message: "the answer has no text, or a blank one"})
	}
	return c.outcome(c.languages.CheckDetail(c.text, c.request(), c.language()))
}

func checkLanguage(c *said) []text.Remark {
	want := c.wanted()
	if want == "" {
		found, sure := c.languages.Detect(text.Prose(c.request()))
		if found == text.Undetermined || sure < 0.8 {
			c.none = "no language is wanted"
			return nil
		}
		want = found
	}
	remarks, applies := c.languages.CheckLanguage(c.text, want)
	if !applies {
		c.none = "the text is too short, or of a language without a pack"
	}
	return remarks
}

func checkPrompt(c *said) []text.Remark {
	systems := []string{c.System}
	if s, ok := c.Request.Key("input").Key("system").AsString(); ok {
		systems = append(systems, s)
	}
	for m := range c.Request.Key("input").Key("messages").Elems() {
		if role, _ := m.Key("role").AsKeyword(); role == "system" {
			s, _ := m.Key("content").AsString()
			systems = append(systems, s)
		}
	}
	var out []text.Remark
	any := false
	for _, system := range systems {
		if strings.TrimSpace(system) != "" {
			any = true
			out = append(out, text.CheckPrompt(c.text, system)...)
		}
	}
	if !any {
		c.none = "there is no system prompt"
	}
	return out
}

// checkSecrets examines every text of an answer.
func checkSecrets(s Subject) Outcome {
	var b strings.Builder
	gather(&b, s.Result, 0)
	if b.Len() == 0 {
		return NotApplicable("the answer has no text")
	}
	// A finding in the text itself has a range.
	if key, found, ok := Text(s.Result); ok {
		if remarks := text.CheckSecrets(found); len(remarks) > 0 {
			c := said{Subject: s, key: key, text: found}
			return c.outcome(remarks)
		}
	}
	if remarks := text.CheckSecrets(b.String()); len(remarks) > 0 {
		return Failed(Finding{Message: remarks[0].Message, Fix: remarks[0].Fix})
	}
	return Passed()
}
