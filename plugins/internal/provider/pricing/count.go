package pricing

import (
	"sync"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/internal/provider/chat"
)

// Counted is an estimate of the tokens of a question and its answer.
type Counted struct{ In, Out int64 }

// perMessage is what a message takes besides its text.
const perMessage = 8

// Estimate counts the tokens of a text without knowing the model: a third of
// its bytes, and not less than its runes outside of ASCII.
func Estimate(text string) int64 {
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

// EstimateRequest counts the tokens of a question.
func EstimateRequest(r *chat.Request) int64 {
	var n int64
	for _, m := range r.Messages {
		n += Estimate(m.Content) + perMessage
		for _, c := range m.Calls {
			n += Estimate(c.Name) + Estimate(string(c.Args))
		}
	}
	for _, t := range r.Tools {
		n += Estimate(t.Name) + Estimate(t.Description) + Estimate(string(t.Schema)) + perMessage
	}
	return n + Estimate(string(r.Output.Schema))
}

// EstimateAnswer counts the tokens of what has arrived.
func EstimateAnswer(a *chat.Answer) int64 {
	n := Estimate(a.Text.String()) + Estimate(a.Reasoning.String())
	for _, c := range a.Calls {
		n += Estimate(c.Name) + Estimate(c.Args.String())
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
