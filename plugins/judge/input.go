package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/judge/internal/question"
	"github.com/fermenthq/ferment/plugins/judge/internal/score"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// input is the input of :eval/grade.
type input struct {
	raw    edn.Value
	task   question.Task
	rubric edn.Value
	terms
}

// terms are the settings of the host for the verdict, under :judge.
type terms struct {
	sample, seed int64
	author       author
	sameFamily   bool
	intent       string
	scale        edn.Value
	calibration  edn.Value
}

// author describes the author of the answer, as far as known.
type author struct {
	capability, family, model string
	names                     []string
}

// all returns the names of the author, which a judge must not read.
func (a author) all() []string {
	out := append(slices.Clone(a.names), a.family, a.model)
	if a.capability != "" {
		out = append(out, a.capability)
	}
	return out
}

// readInput parses the input, which must have been validated against req/eval. The error names the
// invalid field.
func readInput(v edn.Value) (input, error) {
	in := input{raw: v, rubric: v.Key("rubric")}
	for _, part := range []struct {
		into *edn.Value
		keys []string
	}{
		{&in.task.Call, []string{"task/call", "call"}}, {&in.task.Result, []string{"task/result", "result"}}, {&in.task.Other, []string{"task/other"}},
		{&in.task.Done, []string{"task/done"}}, {&in.task.Env, []string{"task/env"}},
	} {
		for _, key := range part.keys {
			at := v.Key(key)
			if !at.IsNil() && !at.IsMap() {
				return input{}, refused("a map", at, edn.K(key))
			}
			if part.into.IsNil() {
				*part.into = at
			}
		}
	}
	if in.task.Result.Len() == 0 {
		return input{}, refused("the answer that is judged, such as {:out {:text \"...\"}}", in.task.Result,
			edn.K("task/result"))
	}
	if in.pairwise() && in.task.Other.Len() == 0 {
		return input{}, refused("the other answer of the comparison", in.task.Other, edn.K("task/other"))
	}
	return in, in.read(v.Key("judge"))
}

// pairwise reports whether two answers are compared.
func (in input) pairwise() bool { return !in.task.Other.IsNil() }

func (t *terms) read(v edn.Value) error {
	if !v.IsNil() && !v.IsMap() {
		return refused("a map", v, edn.K("judge"))
	}
	for key, into := range map[string]*int64{"sample": &t.sample, "seed": &t.seed} {
		if at := v.Key(key); !at.IsNil() {
			n, ok := at.AsInt()
			if !ok || key == "sample" && n < 0 {
				return refused("an integer", at, edn.K("judge"), edn.K(key))
			}
			*into = n
		}
	}
	who := v.Key("author")
	t.author = author{capability: word(who.Key("cap/id")), family: word(who.Key("family")), model: word(who.Key("model"))}
	for name := range who.Key("names").Elems() {
		t.author.names = append(t.author.names, word(name))
	}
	t.sameFamily, _ = v.Key("allow-same-family?").AsBool()
	if at := v.Key("intent"); !at.IsNil() {
		t.intent = word(at)
		if name, err := edn.Keyword(t.intent); err != nil || name.Namespace() == "" || t.intent == grade {
			return refused("an intent that a model serves, such as :model/chat", at, edn.K("judge"), edn.K("intent"))
		}
	}
	if at := v.Key("score-path"); !at.IsNil() {
		if !at.IsVector() && !at.IsList() {
			return refused("a path, such as [:verdict :score]", at, edn.K("judge"), edn.K("score-path"))
		}
		for step := range at.Elems() {
			if word(step) == "" {
				return refused("a path of names, such as [:verdict :score]", at, edn.K("judge"), edn.K("score-path"))
			}
		}
	}
	t.scale = v.Key("scale")
	if _, err := score.ReadScale(t.scale); !t.scale.IsNil() && err != nil {
		return contract.Errorf("judge/rubric-invalid", ":judge :scale: %w", err).
			WithDetail("path", edn.Vector(edn.K("judge"), edn.K("scale")))
	}
	t.calibration = v.Key("calibration")
	return nil
}

// seedOf returns the seed of the sample.
func (t terms) seedOf() int64 { return (t.seed + t.sample) & 0x7fffffff }

func word(v edn.Value) string {
	if s, ok := v.AsKeyword(); ok {
		return s
	}
	s, _ := v.AsString()
	return strings.TrimPrefix(s, ":")
}

func refused(expected string, got edn.Value, path ...edn.Value) *contract.Error {
	return contract.Errorf("input/invalid", "%s: expected %s, found %s", edn.Vector(path...), expected,
		score.Excerpt(fmt.Sprint(got))).
		WithDetail("path", edn.Vector(path...)).WithDetail("expected", edn.Text(expected))
}
