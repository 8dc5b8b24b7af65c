package calibration

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// LeastAnchors is the minimum number of anchors per label (JDG-010).
const LeastAnchors = 20

// MostAnchors is the maximum number of anchors of a file.
const MostAnchors = 5000

// Anchor is an answer that people labelled good or bad.
type Anchor struct {
	ID   string
	Good bool
	// Call, Result, Done and Env are the values that a judge gets for an answer
	// under :task/call, :task/result, :task/done and :task/env. All are maps.
	Call, Result, Done, Env edn.Value
	// Family is the family of the model that wrote the answer, empty if a
	// person wrote it or the author is unknown.
	Family string
}

// Length returns the length of the answer in code points: of its text, or of
// its EDN form.
func (a Anchor) Length() int {
	for _, v := range []edn.Value{a.Result.Key("out"), a.Result} {
		if s, ok := v.Key("text").AsString(); ok {
			return utf8.RuneCountInString(s)
		}
	}
	return utf8.RuneCount(a.Result.Canonical())
}

// Anchors is a checked set of anchors.
type Anchors struct {
	// ScoreMin is the lowest score with which an answer passes; 0.5 if the file sets none.
	ScoreMin quality.Score
	List     []Anchor
	// Hash identifies the set, independent of its formatting.
	Hash string
}

// Pair is a good and a bad answer to one question, by their indices in the
// list.
type Pair struct{ Good, Bad int }

// Pairs returns pairs of anchors that a judge can compare: a good and a bad answer to the
// same question. Each anchor is in at most one pair.
func (a Anchors) Pairs() []Pair {
	bad := map[string][]int{}
	for i, x := range a.List {
		if !x.Good {
			bad[edn.Hash(x.Call)] = append(bad[edn.Hash(x.Call)], i)
		}
	}
	var out []Pair
	for i, x := range a.List {
		if key := edn.Hash(x.Call); x.Good && x.Call.Len() > 0 && len(bad[key]) > 0 {
			out = append(out, Pair{i, bad[key][0]})
			bad[key] = bad[key][1:]
		}
	}
	return out
}

// defaultScoreMin is used if the anchors have none: half of the best score.
const defaultScoreMin = quality.Perfect / 2

var (
	fileKeys   = []string{"anchors", "score-min", "anchors/version"}
	anchorKeys = []string{"id", "label", "family", "task/call", "task/result", "task/done", "task/env"}
)

// ParseAnchors reads anchors:
//
//	{:anchors/version 1
//	 :score-min 0.7
//	 :anchors [{:id "a1" :label :good :family "alpha"
//	            :task/call {:input {:text "..."}} :task/result {:out {:text "..."}}} ...]}
//
// The error is a *contract.Error of type invalid-request whose details list every problem
// with its path.
func ParseAnchors(v edn.Value) (Anchors, error) {
	if !v.IsMap() {
		return Anchors{}, refused("anchors", []problem{{message: fmt.Sprintf("expected a map with :anchors, found %s",
			v.Kind())}})
	}
	p := &problems{}
	p.known(v, fileKeys)
	out := Anchors{ScoreMin: defaultScoreMin, Hash: edn.Hash(v)}
	if n, ok := v.Key("anchors/version").AsInt(); v.HasKey("anchors/version") && (!ok || n != Version) {
		p.add(fmt.Sprintf("expected version %d, found %s", Version, v.Key("anchors/version")), edn.K("anchors/version"))
	}
	if v.HasKey("score-min") {
		var ok bool
		if out.ScoreMin, ok = quality.ScoreOf(v.Key("score-min")); !ok || out.ScoreMin < 0 || out.ScoreMin > quality.Perfect {
			p.add(fmt.Sprintf("expected a number from 0 to 1, found %s", v.Key("score-min")), edn.K("score-min"))
		}
	}
	list := v.Key("anchors")
	if !list.IsVector() && !list.IsList() || list.Len() > MostAnchors {
		p.add(fmt.Sprintf("expected a vector of at most %d anchors, found %s", MostAnchors, described(list)),
			edn.K("anchors"))
		return Anchors{}, refused("anchors", p.list)
	}
	out.List = p.anchors(list)
	if len(p.list) == 0 {
		p.enough(out.List)
	}
	if len(p.list) > 0 {
		return Anchors{}, refused("anchors", p.list)
	}
	return out, nil
}

func (p *problems) anchors(list edn.Value) []Anchor {
	var out []Anchor
	first := map[string]int{}
	i := -1
	for v := range list.Elems() {
		i++
		at := []edn.Value{edn.K("anchors"), edn.Int(int64(i))}
		if !v.IsMap() {
			p.add(fmt.Sprintf("expected a map, found %s", v.Kind()), at...)
			continue
		}
		p.known(v, anchorKeys, at...)
		a := Anchor{
			Call:   p.part(v, "task/call", at),
			Result: p.part(v, "task/result", at),
			Done:   p.part(v, "task/done", at),
			Env:    p.part(v, "task/env", at),
		}
		if a.Result.Len() == 0 {
			p.add("expected the answer, such as {:out {:text \"...\"}}", append(at, edn.K("task/result"))...)
		}
		label, _ := v.Key("label").AsKeyword()
		if a.Good = label == "good"; !a.Good && label != "bad" {
			p.add(fmt.Sprintf("expected :good or :bad, found %s", v.Key("label")), append(at, edn.K("label"))...)
		}
		var ok bool
		if a.Family, ok = v.Key("family").AsString(); !ok && v.HasKey("family") {
			p.add("expected the family as a text", append(at, edn.K("family"))...)
		}
		if a.ID, ok = v.Key("id").AsString(); !ok && v.HasKey("id") {
			p.add("expected the id as a text", append(at, edn.K("id"))...)
		} else if !ok {
			a.ID = fmt.Sprintf("#%d", i+1)
		}
		if before, twice := first[a.ID]; twice {
			p.add(fmt.Sprintf("the id %q is that of anchor %d too", a.ID, before), append(at, edn.K("id"))...)
		}
		first[a.ID] = i
		out = append(out, a)
	}
	return out
}

func (p *problems) part(v edn.Value, key string, at []edn.Value) edn.Value {
	part := v.Key(key)
	if part.IsNil() {
		return edn.MustMap()
	}
	if !part.IsMap() {
		p.add(fmt.Sprintf("expected a map, found %s", part.Kind()), append(slices.Clone(at), edn.K(key))...)
		return edn.MustMap()
	}
	return part
}

func (p *problems) enough(list []Anchor) {
	good := 0
	for _, a := range list {
		if a.Good {
			good++
		}
	}
	if bad := len(list) - good; good < LeastAnchors || bad < LeastAnchors {
		p.add(fmt.Sprintf("expected at least %d anchors of each label, found %d :good and %d :bad: add what is missing",
			LeastAnchors, good, bad), edn.K("anchors"))
	}
}

// known rejects unknown keys.
func (p *problems) known(m edn.Value, names []string, at ...edn.Value) {
	for key := range m.Entries() {
		word, ok := key.AsKeyword()
		if ok && slices.Contains(names, word) {
			continue
		}
		hint := ""
		if near := contract.Nearest(word, names); near != "" {
			hint = ", did you mean :" + near + "?"
		}
		p.add(fmt.Sprintf("unknown key %s%s", key, hint), append(slices.Clone(at), key)...)
	}
}

func described(v edn.Value) string {
	if v.IsVector() || v.IsList() {
		return fmt.Sprintf("%d", v.Len())
	}
	return v.Kind().String()
}
