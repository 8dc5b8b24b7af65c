package workspace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// flag sets one key of the input.
type flag struct {
	name  string
	key   string // path in the input, with dots between its keys; empty: the verb reads the flag itself
	kind  kind
	usage string
	words []string // valid values of kindWord and kindText; nil: any
}

// kind determines how the text of a flag is converted to a value.
type kind uint8

const (
	kindTrue      kind = iota // no text; the value is true
	kindWord                  // a keyword
	kindText                  // a string
	kindTexts                 // strings; the flag may be repeated
	kindInt                   // a number that is not negative
	kindMillis                // a duration in milliseconds
	kindSpan                  // a duration as text
	kindEDN                   // any value as EDN
	kindNameOrEDN             // a map or vector as EDN, otherwise a name
	kindHandle                // a capability by its id
	kindPairs                 // NAME=VALUE entries of a map; the flag may be repeated
	kindPath                  // a path below the workspace
	kindPaths                 // paths below the workspace; the flag may be repeated
	kindUp                    // none, root, a number of levels or a path
)

// setting is the value of a flag of one command.
type setting struct {
	flag
	given []string
}

// Set implements pflag.Value.
func (s *setting) Set(text string) error {
	switch s.kind {
	case kindTrue:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("expected true, false or no value")
		}
		if !on {
			s.given = nil
			return nil
		}
	case kindTexts, kindPairs, kindPaths:
		s.given = append(s.given, text)
	}
	if _, err := s.one(text, func(path string) (string, error) { return path, nil }); err != nil {
		return err
	}
	if s.kind != kindTexts && s.kind != kindPairs && s.kind != kindPaths {
		s.given = []string{text}
	}
	return nil
}

// String implements pflag.Value.
func (s *setting) String() string { return "" }

// Type implements pflag.Value; help texts show it.
func (s *setting) Type() string {
	switch s.kind {
	case kindTrue:
		return "bool"
	case kindInt:
		return "uint"
	case kindMillis, kindSpan:
		return "duration"
	case kindWord:
		return "word"
	case kindEDN:
		return "edn"
	case kindNameOrEDN:
		return "name|edn"
	case kindPairs:
		return "name=value"
	case kindText, kindTexts, kindPath, kindPaths, kindUp, kindHandle: // a string, unless it is one of words
	}
	if s.words != nil {
		return "word"
	}
	return "string"
}

// IsBoolFlag reports whether the flag needs no value.
func (s *setting) IsBoolFlag() bool { return s.kind == kindTrue }

// value returns the value of a flag that was given.
func (s *setting) value(at place) (edn.Value, error) {
	switch s.kind {
	case kindTexts, kindPaths:
		var all []edn.Value
		for _, text := range s.given {
			v, err := s.one(text, at.textPath)
			if err != nil {
				return edn.Nil(), err
			}
			all = append(all, v)
		}
		return edn.Vector(all...), nil
	case kindPairs:
		all := edn.MustMap()
		for _, text := range s.given {
			pair, err := s.one(text, at.textPath)
			if err != nil {
				return edn.Nil(), err
			}
			all = all.Merge(pair)
		}
		return all, nil
	}
	return s.one(s.given[0], at.textPath)
}

var errNumber = fmt.Errorf("expected a whole number from 0 to %d", math.MaxInt64)

var errSpan = errors.New("expected a time such as 90s, 15m, 1h30m or 7d")

// one converts one text; path converts a path to one in the workspace.
func (s *setting) one(text string, path func(string) (string, error)) (edn.Value, error) {
	switch s.kind {
	case kindTrue:
		return edn.Bool(true), nil
	case kindWord, kindText, kindTexts:
		return s.word(text)
	case kindHandle:
		id, err := named(text)
		if err != nil {
			return edn.Nil(), err
		}
		return edn.MustMap(edn.K("cap/ref"), id), nil
	case kindInt:
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return edn.Nil(), errNumber
		}
		return edn.Int(int64(n)), nil
	case kindMillis:
		ms, err := language.ParseDuration(text)
		if err != nil {
			return edn.Nil(), errSpan
		}
		return edn.Int(ms), nil
	case kindSpan:
		if _, err := language.ParseDuration(text); err != nil {
			return edn.Nil(), errSpan
		}
		return edn.Text(text), nil
	case kindNameOrEDN:
		if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
			v, err := named(text)
			if err != nil {
				err = fmt.Errorf("%w, or EDN that begins with { or [", err)
			}
			return v, err
		}
		return readEDN(text)
	case kindEDN:
		return readEDN(text)
	case kindPairs:
		name, rest, ok := strings.Cut(text, "=")
		key, err := edn.Keyword(strings.TrimPrefix(name, ":"))
		if !ok || err != nil {
			return edn.Nil(), errors.New("expected NAME=VALUE")
		}
		return edn.MustMap(key, edn.Text(rest)), nil
	case kindPath, kindPaths:
		mapped, err := path(text)
		return edn.Text(mapped), err
	case kindUp:
		return up(text, path)
	}
	return edn.Nil(), fmt.Errorf("internal error: flag kind %d has no parser", s.kind)
}

func (s *setting) word(text string) (edn.Value, error) {
	bare := strings.TrimPrefix(text, ":")
	if s.words != nil {
		for _, w := range s.words {
			if bare == w {
				return s.text(bare), nil
			}
		}
		return edn.Nil(), fmt.Errorf("expected %s", oneOf(s.words))
	}
	if s.kind == kindWord {
		return named(text)
	}
	return s.text(text), nil
}

func (s *setting) text(text string) edn.Value {
	if s.kind == kindWord {
		return edn.K(text)
	}
	return edn.Text(text)
}

// named returns a keyword.
func named(text string) (edn.Value, error) {
	k, err := edn.Keyword(strings.TrimPrefix(text, ":"))
	if err != nil {
		return edn.Nil(), errors.New("expected a name of letters, digits and the characters . _ - /")
	}
	return k, nil
}

func readEDN(text string) (edn.Value, error) {
	v, err := edn.Read([]byte(text), edn.WithLimits(edn.Body))
	if err != nil {
		return edn.Nil(), fmt.Errorf("expected EDN: %w", contract.AsError(contract.SyntaxError("invalid-request", err)))
	}
	return v, nil
}

// up returns the number of levels above its target for a regeneration.
func up(text string, path func(string) (string, error)) (edn.Value, error) {
	switch text {
	case "none", "root":
		return edn.K(text), nil
	}
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		return edn.Int(int64(n)), nil
	}
	mapped, err := path(text)
	return edn.Text(mapped), err
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.TrimPrefix(strings.Join(words[:last], ", ")+" or "+words[last], " or ")
}

// register adds the flags of a verb to its command.
func register(cmd *cobra.Command, flags []flag) map[string]*setting {
	all := map[string]*setting{}
	for _, f := range flags {
		s := &setting{flag: f}
		all[f.name] = s
		usage := f.usage
		if f.words != nil {
			usage += ": " + oneOf(f.words)
		}
		added := cmd.Flags().VarPF(s, f.name, "", usage)
		if f.kind == kindTrue {
			added.NoOptDefVal = "true"
		}
		if f.words != nil {
			words := f.words
			_ = cmd.RegisterFlagCompletionFunc(f.name, // fails only for an unknown flag
				func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
					return words, cobra.ShellCompDirectiveNoFileComp
				})
		}
	}
	return all
}

// put returns a map with a key set. Dots in the path separate the keys of nested maps.
func put(into edn.Value, path string, v edn.Value) edn.Value {
	first, rest, nested := strings.Cut(path, ".")
	if !nested {
		return into.AssocKey(first, v)
	}
	inner := into.Key(first)
	if !inner.IsMap() {
		inner = edn.MustMap()
	}
	return into.AssocKey(first, put(inner, rest, v))
}

// span is the value of a flag with a duration.
type span struct{ to *time.Duration }

// Set implements pflag.Value.
func (s span) Set(text string) error {
	ms, err := language.ParseDuration(text)
	if err != nil || ms <= 0 || ms > (24*time.Hour).Milliseconds() {
		return errors.New("expected a time such as 90s, 15m or 2h, at most 24h")
	}
	*s.to = time.Duration(ms) * time.Millisecond
	return nil
}

// Type implements pflag.Value.
func (s span) Type() string { return "duration" }

// String implements pflag.Value.
func (s span) String() string { return "" }
