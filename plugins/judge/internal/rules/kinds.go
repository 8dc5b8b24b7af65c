package rules

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/judge/internal/question"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

func full() *big.Rat { return big.NewRat(1, 1) }

// part returns n/all, limited to 0..1, and 1 if all is 0.
func part(n, all int) *big.Rat {
	if all <= 0 {
		return full()
	}
	return big.NewRat(int64(min(max(n, 0), all)), int64(all))
}

// folded returns the words of a text in lower case with single blanks between
// and around them, so that a phrase is found as a whole.
func folded(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte(' ')
	for _, w := range text.Words(s) {
		b.WriteString(strings.ToLower(w.In(s)))
		b.WriteByte(' ')
	}
	return b.String()
}

// phrase is a term with its folded form; a term without words is searched
// verbatim.
type phrase struct{ said, folded string }

func phrases(terms []string) []phrase {
	out := make([]phrase, len(terms))
	for i, t := range terms {
		out[i] = phrase{strings.TrimSpace(t), folded(t)}
	}
	return out
}

func (p phrase) in(s, fold string) bool {
	if strings.TrimSpace(p.folded) == "" {
		return strings.Contains(s, p.said)
	}
	return strings.Contains(fold, p.folded)
}

// terms requires phrases; a vector within the vector holds alternatives.
func terms(f *form) check {
	var wanted [][]phrase
	v := f.v.Key("all")
	for x := range v.Elems() {
		one := &form{v: edn.MustMap(edn.K("all"), x), at: f.at, problems: f.problems}
		if list := one.texts("all"); list != nil {
			wanted = append(wanted, phrases(list))
		}
	}
	if len(wanted) == 0 {
		f.bad("all",
			"expected a vector of texts, in which a vector contains alternatives, found "+score.Excerpt(v.String()))
	}
	return func(x Subject) Outcome {
		fold := folded(x.Text)
		o := Outcome{}
		for _, one := range wanted {
			if !slices.ContainsFunc(one, func(p phrase) bool { return p.in(x.Text, fold) }) {
				o.Findings = append(o.Findings, fmt.Sprintf("the answer does not mention %q", one[0].said))
			}
		}
		o.Score = part(len(wanted)-len(o.Findings), len(wanted))
		return o
	}
}

func forbidden(f *form) check {
	list := phrases(f.texts("any"))
	if len(list) == 0 && !f.v.HasKey("any") {
		f.bad("any", "expected a vector of texts, found nothing")
	}
	return func(x Subject) Outcome {
		fold := folded(x.Text)
		o := Outcome{Score: full()}
		for _, p := range list {
			if p.in(x.Text, fold) {
				o.Score = new(big.Rat)
				o.Findings = append(o.Findings, fmt.Sprintf("the answer says %q", p.said))
			}
		}
		return o
	}
}

func length(f *form) check {
	low, high := f.count("min"), f.count("max")
	if low < 0 && high < 0 {
		f.bad("min", "expected :min, :max or both")
	}
	if low >= 0 && high >= 0 && low > high {
		f.bad("max", fmt.Sprintf("expected a number not below :min, which is %d, found %d", low, high))
	}
	unit := "chars"
	if f.v.HasKey("unit") {
		unit = word(f.v.Key("unit"))
	}
	if !slices.Contains([]string{"chars", "words", "sentences"}, unit) {
		f.bad("unit", "expected :chars, :words or :sentences, found "+score.Excerpt(f.v.Key("unit").String()))
	}
	return func(x Subject) Outcome {
		n := 0
		switch unit {
		case "words":
			n = len(text.Words(x.Text))
		case "sentences":
			n = len(x.Languages.Sentences(x.Text, x.Language))
		default:
			n = utf8.RuneCountInString(strings.TrimSpace(x.Text))
		}
		switch {
		case low >= 0 && n < low:
			return Outcome{part(n, low), []string{fmt.Sprintf("the answer has %d %s, at least %d are wanted", n, unit, low)}}
		case high >= 0 && n > high:
			return Outcome{part(high, n), []string{fmt.Sprintf("the answer has %d %s, at most %d are wanted", n, unit, high)}}
		}
		return Outcome{Score: full()}
	}
}

// count parses an integer of 0 or more. It returns -1 if the key is missing or, after it has
// reported the problem, invalid.
func (f *form) count(key string) int {
	if !f.v.HasKey(key) {
		return -1
	}
	n, ok := f.v.Key(key).AsInt()
	if !ok || n < 0 || n > 1<<30 {
		f.bad(key, "expected an integer of 0 or more, found "+score.Excerpt(f.v.Key(key).String()))
		return -1
	}
	return int(n)
}

func sections(f *form) check {
	titles := f.texts("titles")
	if len(titles) == 0 && !f.v.HasKey("titles") {
		f.bad("titles", "expected a vector of texts, found nothing")
	}
	return func(x Subject) Outcome {
		heads := map[string]bool{}
		for line := range strings.Lines(x.Text) {
			heads[title(line)] = true
		}
		o := Outcome{}
		for _, t := range titles {
			if !heads[title(t)] {
				o.Findings = append(o.Findings, fmt.Sprintf("the section %q is missing", t))
			}
		}
		o.Score = part(len(titles)-len(o.Findings), len(titles))
		return o
	}
}

// title returns a line in lower case without the marks of a heading: markup, leading numbers, a
// trailing colon.
func title(line string) string {
	line = strings.TrimFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("#*_=:", r) })
	line = strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsSpace(r) || r == '.' || r == ')' })
	return strings.ToLower(line)
}

// sourced parses where a rule takes its source from: the text under the key literal, or the path
// under :from. The result returns the source for a subject, that of usual if the rule has neither.
func sourced(f *form, literal string) func(Subject) string {
	given, path := f.text(literal), f.path("from")
	return func(x Subject) string {
		if given != "" {
			return given
		}
		if path != nil {
			at, _ := x.Input.GetIn(path...)
			return plain(at)
		}
		return usual(x.Input)
	}
}

func plain(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	return question.Text(v)
}

// usual returns the source in the input of the judge for rules that name none, "" if there is none.
func usual(input edn.Value) string {
	call := input.Key("task/call")
	in := call.Key("input")
	places := []edn.Value{input.Key("task/env").Key("source"), in.Key("source"), in.Key("frames")}
	if intent := word(call.Key("intent")); intent == "context/summarize" || word(call.Key("task").Key("intent")) == "context/summarize" {
		places = append(places, in.Key("text"), in.Key("context"))
	}
	for _, v := range places {
		if s := plain(v); strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

func numbers(f *form) check {
	source := sourced(f, "source")
	return func(x Subject) Outcome {
		from := source(x)
		if from == "" {
			return Outcome{}
		}
		all := 0
		for _, w := range text.Words(x.Text) {
			if r, _ := utf8.DecodeRuneInString(w.In(x.Text)); unicode.IsDigit(r) {
				all++
			}
		}
		return held(x.Languages.CheckNumbers(x.Text, from, x.Language), all, "")
	}
}

func quotes(f *form) check {
	source := sourced(f, "source")
	return func(x Subject) Outcome {
		from := source(x)
		if from == "" {
			return Outcome{}
		}
		remarks := text.CheckQuotes(x.Text, from)
		if len(remarks) == 0 {
			return Outcome{Score: full()}
		}
		return held(remarks, len(text.CheckQuotes(x.Text, " ")), x.Text)
	}
}

// held returns the share of the claims that the source supports, with the remarks as findings. all
// is the number of claims. If cited is not empty, the findings quote it.
func held(remarks []text.Remark, all int, cited string) Outcome {
	o := Outcome{Score: part(all-len(remarks), max(all, len(remarks)))}
	for _, r := range remarks {
		message := r.Message
		if cited != "" {
			message += ": " + score.Excerpt(r.Span.In(cited))
		}
		o.Findings = append(o.Findings, message)
	}
	return o
}

func repetition(f *form) check {
	size := 4
	if n := f.count("words"); n > 0 {
		size = n
	} else if n == 0 {
		f.bad("words", "expected an integer of at least 1, found "+score.Excerpt(f.v.Key("words").String()))
	}
	most := big.NewRat(1, 5)
	if f.v.HasKey("most") {
		n, ok := f.v.Key("most").AsNumber()
		if !ok || n.Sign() < 0 || n.Cmp(full()) >= 0 {
			f.bad("most", "expected a share from 0 to below 1, found "+score.Excerpt(f.v.Key("most").String()))
			n = most
		}
		most = n
	}
	return func(x Subject) Outcome {
		ids := identities(map[string]int32{}, x.Text)
		again, all := repeated(ids, size)
		if all == 0 {
			return Outcome{Score: full()}
		}
		share := big.NewRat(int64(again), int64(all))
		if share.Cmp(most) <= 0 {
			return Outcome{Score: full()}
		}
		over := new(big.Rat).Sub(share, most)
		over.Quo(over, new(big.Rat).Sub(full(), most))
		return Outcome{over.Sub(full(), over),
			[]string{fmt.Sprintf("%d of %d runs of %d words occur twice", again, all, size)}}
	}
}

// repeated returns the number of runs of size words, and how many of them occurred before.
func repeated(ids []int32, size int) (again, all int) {
	all = len(ids) - size + 1
	if all < 1 {
		return 0, 0
	}
	seen := make(map[uint64]struct{}, all)
	for i := range all {
		h := uint64(14695981039346656037)
		for _, id := range ids[i : i+size] {
			h = (h ^ uint64(uint32(id))) * 1099511628211
			h ^= h >> 29
		}
		if _, ok := seen[h]; ok {
			again++
		}
		seen[h] = struct{}{}
	}
	return again, all
}

func language(f *form) check {
	is := ""
	if f.v.HasKey("is") {
		if is = word(f.v.Key("is")); len(is) < 2 {
			f.bad("is", "expected the code of a language, such as :en, found "+score.Excerpt(f.v.Key("is").String()))
		}
	}
	return func(x Subject) Outcome {
		want := is
		if want == "" {
			want = x.Language
		}
		remarks, applies := x.Languages.CheckLanguage(x.Text, want)
		switch {
		case !applies:
			return Outcome{}
		case len(remarks) > 0:
			return Outcome{new(big.Rat), []string{remarks[0].Message}}
		}
		return Outcome{Score: full()}
	}
}

// maxPattern bounds a regular expression in bytes.
const maxPattern = 2000

func pattern(f *form) check {
	match, refuse := f.patterns("match"), f.patterns("refuse")
	if len(match)+len(refuse) == 0 && !f.v.HasKey("match") && !f.v.HasKey("refuse") {
		f.bad("match", "expected :match, :refuse or both: regular expressions")
	}
	return func(x Subject) Outcome {
		o := Outcome{}
		for _, re := range match {
			if !re.MatchString(x.Text) {
				o.Findings = append(o.Findings, fmt.Sprintf("nothing in the answer matches %q", re))
			}
		}
		for _, re := range refuse {
			if at := re.FindString(x.Text); at != "" || re.MatchString(x.Text) {
				o.Findings = append(o.Findings, fmt.Sprintf("%q matches %q", at, re))
			}
		}
		all := len(match) + len(refuse)
		o.Score = part(all-len(o.Findings), all)
		return o
	}
}

func (f *form) patterns(key string) []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, s := range f.texts(key) {
		if len(s) > maxPattern {
			f.bad(key, fmt.Sprintf("expected a regular expression of at most %d bytes, found %d", maxPattern, len(s)))
			continue
		}
		re, err := regexp.Compile(s)
		if err != nil {
			f.bad(key, fmt.Sprintf("%q is not a regular expression (RE2): %v", s, err))
			continue
		}
		out = append(out, re)
	}
	return out
}

func rouge(f *form) check {
	if !f.v.HasKey("reference") && !f.v.HasKey("from") {
		f.bad("reference", "expected a text under :reference, or a path to one under :from")
	}
	source := sourced(f, "reference")
	return func(x Subject) Outcome {
		reference := source(x)
		if strings.TrimSpace(reference) == "" {
			return Outcome{}
		}
		return Outcome{Score: rougeL(x.Text, reference)}
	}
}
