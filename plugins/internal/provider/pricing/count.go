package pricing

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// Way is the method by which tokens were counted.
type Way string

// The counting methods, the most exact one first. The last one is always
// available.
const (
	Endpoint Way = "endpoint" // the server counted
	Local    Way = "local"    // by the local table of the model
	Estimate Way = "estimate" // by the length of the text
)

// Table counts the tokens of texts as the tokenizer of a model does. It is safe
// for concurrent use. Both methods return false if ctx ended first.
type Table interface {
	// Load waits until the table is in memory. Only the first call loads it.
	Load(ctx context.Context) bool
	Count(ctx context.Context, text string) (int64, bool)
}

// Counted are the locally counted tokens of a request and its answer.
type Counted struct{ In, Out int64 }

// perMessage is the number of tokens of a message besides its text.
const perMessage = 8

// EstimateText estimates the tokens of a text independently of the model: a
// third of its bytes, but at least its non-ASCII runes.
func EstimateText(text string) int64 {
	wide := int64(0)
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		i += n
		wide++
	}
	return max(int64(len(text)+2)/3, wide)
}

// The tokens of an image depend on its size and the model, so this is a rough
// estimate: about 1,600 for one that Claude does not scale down (Anthropic,
// vision guide: width x height / 750), and at most 48,200 (OpenAI, vision
// guide: 2,833 and 5,667 for each of 8 tiles with gpt-4o-mini). Both as of
// 2026-11-25.
const (
	imageTokens     = 1_600
	mostImageTokens = 48_200
)

// EstimateRequest estimates the tokens of a request.
func EstimateRequest(r *chat.Request) int64 {
	texts, _ := Texts(r)
	return estimate(texts) + int64(len(r.Messages)+len(r.Tools))*perMessage + int64(r.Images())*imageTokens
}

// EstimateAnswer estimates the tokens received so far.
func EstimateAnswer(a *chat.Answer) int64 { return estimate(AnswerTexts(a)) }

func estimate(texts []string) int64 {
	var n int64
	for _, text := range texts {
		n += EstimateText(text)
	}
	return n
}

// Tokens between the texts of a request when they are counted by a table or the
// server's tokenizer: the markers of each message with its role, the beginning
// of the answer, and the frame of a tool or a call. The first two are exact for
// the models of OpenAI.
const (
	frameTokens = 4
	beginTokens = 3
	toolTokens  = 8
)

// Texts returns the texts of a request one by one, and the number of tokens
// around them.
func Texts(r *chat.Request) (texts []string, around int64) { return textsOf(r, true) }

// textsOf is Texts with or without the reasoning of earlier turns.
func textsOf(r *chat.Request, reasoning bool) (texts []string, around int64) {
	add := func(all ...string) {
		for _, s := range all {
			if s != "" {
				texts = append(texts, s)
			}
		}
	}
	around = beginTokens
	for _, m := range r.Messages {
		around += frameTokens
		for _, p := range m.Each() {
			if reasoning || !p.Reasons() {
				add(p.Text)
			}
		}
		for _, c := range m.Calls {
			around += toolTokens
			add(c.Name, string(c.Args))
		}
	}
	for _, t := range r.Tools {
		around += toolTokens
		add(t.Name, t.Description, string(t.Schema))
	}
	add(string(r.Output.Schema))
	return texts, around + int64(r.Images())*imageTokens
}

// AnswerTexts returns the texts received so far.
func AnswerTexts(a *chat.Answer) []string {
	texts := []string{a.Text.String(), a.Reasoning.String()}
	for _, c := range a.Calls {
		texts = append(texts, c.Name, c.Args.String())
	}
	return texts
}

// Most returns an upper bound of the tokens of a request: no token is shorter
// than a byte.
func Most(r *chat.Request) int64 {
	texts, around := Texts(r)
	n := 2*around + int64(r.Images())*mostImageTokens
	for _, s := range texts {
		n += int64(len(s))
	}
	return n
}

// Least returns a lower bound of the tokens of a request: the number of its
// words, since tokenizers split a text at blanks before they look for tokens.
// Reasoning is not counted, because many models do not read that of earlier
// turns.
func Least(r *chat.Request) int64 {
	texts, _ := textsOf(r, false)
	var n int64
	for _, s := range texts {
		for range strings.FieldsSeq(s) {
			n++
		}
	}
	return n
}

// Bounds of a Ratio, and the weight of a new count in it.
const (
	leastRatio = 0.5
	mostRatio  = 2.0
	weight     = 0.2
)

// Ratio tracks the ratio of actual token counts of one model to the estimates.
// It is safe for concurrent use. The zero Ratio changes nothing.
type Ratio struct {
	mu   sync.Mutex
	have float64
}

// Learn adds an actual count.
func (r *Ratio) Learn(actual, estimated int64) {
	if actual <= 0 || estimated <= 0 {
		return
	}
	now := clamp(float64(actual) / float64(estimated))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.have == 0 {
		r.have = 1
	}
	r.have = clamp(r.have + weight*(now-r.have))
}

// Apply corrects an estimate.
func (r *Ratio) Apply(estimated int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.have == 0 {
		return estimated
	}
	return int64(float64(estimated)*r.have + 0.5)
}

func clamp(x float64) float64 { return min(max(x, leastRatio), mostRatio) }
