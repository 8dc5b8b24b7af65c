package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/text/internal/summary"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Defaults and bounds of :context/summarize.
const (
	defaultSentences = 3
	maxSentences     = 100
	maxText          = 8 << 20 // bytes
)

// summarizeIn is the input of :context/summarize: one text, or frames of it.
//
// The contract of the intent names several fields that may hold it.
type summarizeIn struct {
	Text         *string      `edn:"text,omitempty"`
	Frames       *[]edn.Value `edn:"frames,omitempty"`
	Context      edn.Value    `edn:"context,omitempty"` // a map with :text or :frames
	Prompt       *string      `edn:"prompt,omitempty"`
	Summary      *string      `edn:"summary,omitempty"`
	MaxSentences *int         `edn:"max-sentences,omitempty"`
	MaxChars     *int         `edn:"max-chars,omitempty"`
	Language     edn.Value    `edn:"language,omitempty"`
}

type summarizeOut struct {
	Text      string     `edn:"text"`
	Sentences []sentence `edn:"sentences"`
}

type sentence struct {
	Index int     `edn:"index"`
	Score float64 `edn:"score"`
	Range [2]int  `edn:"range"`
}

// summarizer holds the languages of texts.
type summarizer struct{ languages *text.Packs }

func (z summarizer) summarize(ctx context.Context, in summarizeIn) (summarizeOut, error) {
	source, at, err := sourceOf(in)
	if err != nil {
		return summarizeOut{}, err
	}
	limits := summary.Limits{Sentences: defaultSentences}
	if in.MaxChars != nil {
		if *in.MaxChars < 1 {
			return summarizeOut{}, refused("an integer above 0", edn.Int(int64(*in.MaxChars)), "max-chars")
		}
		limits = summary.Limits{Chars: *in.MaxChars}
	}
	if in.MaxSentences != nil {
		if *in.MaxSentences < 1 || *in.MaxSentences > maxSentences {
			return summarizeOut{}, refused(fmt.Sprintf("an integer 1..%d", maxSentences), edn.Int(int64(*in.MaxSentences)),
				"max-sentences")
		}
		limits.Sentences = *in.MaxSentences
	}
	language, err := languageOf(in.Language, "language")
	if language == "" && err == nil {
		language, err = languageOf(sdk.CallFrom(ctx).Request.Key("constraints").Key("language"), "constraints", "language")
	}
	if err != nil {
		return summarizeOut{}, err
	}
	picked, err := summary.Extract(z.languages, source, language, limits)
	switch {
	case errors.Is(err, summary.ErrNothing):
		return summarizeOut{}, contract.Errorf("text/nothing-to-summarize", "the text has no sentence").
			WithDetail("path", pathOf(at...))
	case errors.Is(err, summary.ErrTooTight):
		return summarizeOut{}, refused("at least the length of one sentence", edn.Int(int64(limits.Chars)), "max-chars")
	case err != nil:
		return summarizeOut{}, err
	}
	out := summarizeOut{Text: summary.Join(picked), Sentences: make([]sentence, len(picked))}
	for i, s := range picked {
		out.Sentences[i] = sentence{Index: s.Index, Score: s.Score, Range: [2]int{s.Start, s.End}}
	}
	return out, nil
}

// sourceOf returns the text and its field: :text, :frames, one of them inside
// :context, else :prompt or :summary.
func sourceOf(in summarizeIn) (source string, at []any, err error) {
	switch {
	case in.Text != nil && in.Frames != nil:
		return "", nil, refused("either :text or :frames", edn.K("both"), "frames")
	case in.Text != nil:
		at, source = []any{"text"}, *in.Text
	case in.Frames != nil:
		at = []any{"frames"}
		source, err = joinFrames(*in.Frames, at)
	case in.Context.HasKey("frames"):
		at = []any{"context", "frames"}
		frames := in.Context.Key("frames")
		if frames.Kind() != edn.KindVector && frames.Kind() != edn.KindList {
			return "", nil, refused("a vector of frames", frames, at...)
		}
		source, err = joinFrames(slices.Collect(frames.Elems()), at)
	case in.Context.HasKey("text"):
		at = []any{"context", "text"}
		var ok bool
		if source, ok = in.Context.Key("text").AsString(); !ok {
			return "", nil, refused("a text", in.Context.Key("text"), at...)
		}
	case in.Prompt != nil:
		at, source = []any{"prompt"}, *in.Prompt
	case in.Summary != nil:
		at, source = []any{"summary"}, *in.Summary
	default:
		return "", nil, refused("a text as :text or :frames", edn.Nil(), "text")
	}
	if err == nil && len(source) > maxText {
		err = refused(fmt.Sprintf("at most %d bytes", maxText), edn.Int(int64(len(source))), at...)
	}
	return source, at, err
}

// joinFrames joins frames with a blank line between them, so that no sentence
// spans two. A frame is a string, or a map with :text or, as the frames of a
// workspace, with :content.
func joinFrames(frames []edn.Value, at []any) (string, error) {
	parts := make([]string, len(frames))
	for i, frame := range frames {
		s, ok := frame.AsString()
		if !ok {
			s, ok = frame.Key("text").AsString()
		}
		if !ok {
			s, ok = frame.Key("content").AsString()
		}
		if !ok {
			return "", refused("a string or a map with :text or :content", frame, append(slices.Clip(at), i)...)
		}
		parts[i] = s
	}
	return strings.Join(parts, "\n\n"), nil
}
