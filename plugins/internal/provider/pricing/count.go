package pricing

import (
	"context"
	"sync"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// Way is how tokens were counted that nobody stated.
type Way string

// The ways, from the best to the one that always works.
const (
	Endpoint Way = "endpoint" // the server counted
	Local    Way = "local"    // by the table of the model, here
	Estimate Way = "estimate" // by the length of the text
)

// Table counts the tokens of texts as a model does. It is safe for concurrent
// use. Both methods are false when ctx ended before they were done.
type Table interface {
	// Load waits until the table is in memory. Only the first one does.
	Load(ctx context.Context) bool
	Count(ctx context.Context, text string) (int64, bool)
}

// Counted are the tokens of a question and its answer, as far as they can be
// told here.
type Counted struct{ In, Out int64 }

// perMessage is what a message takes besides its text.
const perMessage = 8

// EstimateText counts the tokens of a text without knowing the model: a third of
// its bytes, and not less than its runes outside of ASCII.
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

// An image takes tokens by its size and by the model, so its count is a guess:
// about 1,600 for one that Claude does not scale down (Anthropic, vision guide:
// width x height / 750), and at most 48,200 (OpenAI, vision guide: 2,833 and 5,667
// for each of 8 tiles with gpt-4o-mini). Both as of 2026-11-25.
const (
	imageTokens     = 1_600
	mostImageTokens = 48_200
)

// EstimateRequest counts the tokens of a question.
func EstimateRequest(r *chat.Request) int64 {
	texts, _ := Texts(r)
	return estimate(texts) + int64(len(r.Messages)+len(r.Tools))*perMessage + int64(r.Images())*imageTokens
}

// EstimateAnswer counts the tokens of what has arrived.
func EstimateAnswer(a *chat.Answer) int64 { return estimate(AnswerTexts(a)) }

func estimate(texts []string) int64 {
	var n int64
	for _, text := range texts {
		n += EstimateText(text)
	}
	return n
}

// What stands between the texts of a question where they are counted by table or
// by the server's own tokenizer: the marks around each message with its role, the
// begin of the answer, and what surrounds a tool or a call of one. The first two
// are those of the models of OpenAI, whose chats are counted exactly so.
const (
	frameTokens = 4
	beginTokens = 3
	toolTokens  = 8
)

// Texts are the texts of a question, one by one, and the tokens that stand
// around them.
func Texts(r *chat.Request) (texts []string, around int64) {
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
			add(p.Text)
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

// AnswerTexts are the texts of what has arrived.
func AnswerTexts(a *chat.Answer) []string {
	texts := []string{a.Text.String(), a.Reasoning.String()}
	for _, c := range a.Calls {
		texts = append(texts, c.Name, c.Args.String())
	}
	return texts
}

// Most is more tokens than a question can have: no token is shorter than a byte.
func Most(r *chat.Request) int64 {
	texts, around := Texts(r)
	n := 2*around + int64(r.Images())*mostImageTokens
	for _, s := range texts {
		n += int64(len(s))
	}
	return n
}

// Bounds of a Ratio, and the weight of a new figure in it.
const (
	leastRatio = 0.5
	mostRatio  = 2.0
	weight     = 0.2
)

// Ratio follows how the actual counts of one model compare with the estimate.
// The zero Ratio is 1.
type Ratio struct {
	mu   sync.Mutex
	have float64
}

// Learn takes in an actual count.
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
