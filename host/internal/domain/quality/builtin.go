package quality

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

// Names of the built-in checks beside SchemaValid.
const (
	Complete  = "complete"
	MaxChars  = "max-chars"
	JSONValid = "json-valid"
)

// Builtins returns the built-in checks. They judge texts in the given languages; nil means
// the built-in languages.
func Builtins(languages *text.Packs) []Check {
	maxChars := builtin(MaxChars, checkMaxChars)
	maxChars.ParamsSchema = edn.MustRead("[:map {:closed true} [:max {:optional true} [:int {:min 0}]]]")
	return append(textChecks(languages),
		builtin(Complete, checkComplete),
		builtin(JSONValid, checkJSONValid),
		maxChars,
		builtin(SchemaValid, checkSchemaValid),
	)
}

// checkSchemaValid reports every mismatch with the effective out-schema.
func checkSchemaValid(s Subject) Outcome {
	if s.Schema == nil {
		return NotApplicable("no out-schema is effective")
	}
	found := s.Schema.Validate(s.Result)
	if len(found) == 0 {
		return Passed()
	}
	fs := make([]Finding, len(found))
	for i := range found {
		message := found[i].Message
		if s.SchemaName != "" {
			message += " (:" + s.SchemaName + ")"
		}
		fs[i] = Finding{Path: found[i].Path, Message: message}
	}
	return Failed(fs...)
}

// checkComplete fails an answer whose model stopped at its token limit, whatever the
// intent. The finish reason is read from `:invoke/meta :finish`, else from `:finish` of the
// answer, as in :res/chat. The answer fails even if the host then cut its text at a
// sentence (`:text/cut?`): what the model would have written next is unknown, so the part
// before it may state the opposite.
func checkComplete(s Subject) Outcome {
	switch finishOf(s) {
	case "":
		return NotApplicable("the answer has no finish reason")
	case finishLength:
		return Failed(Finding{
			Message: "the model stopped at its limit of tokens, so the answer is incomplete",
			Fix:     "give a shorter answer that is complete",
		})
	}
	return Passed()
}

// finishLength is the finish reason of a model that reached its token limit.
const finishLength = "length"

// finishOf returns the finish reason of an answer, empty if it has none.
func finishOf(s Subject) string {
	if finish, ok := s.Meta.Key("finish").AsKeyword(); ok {
		return finish
	}
	finish, _ := s.Result.Key("finish").AsKeyword()
	return finish
}

// CutShort reports whether the model of an answer stopped at its limit of tokens. meta is the
// :invoke/meta of the answer, out its :out.
func CutShort(meta, out edn.Value) bool {
	return finishOf(Subject{Meta: meta, Result: out}) == finishLength
}

// checkMaxChars counts the code points of the answer's text against the
// parameter `:max`, else the request's `:constraints :max-chars`.
func checkMaxChars(s Subject) Outcome {
	limit, ok := s.Params.Key("max").AsInt()
	if !ok {
		limit, ok = s.Request.Key("constraints").Key("max-chars").AsInt()
	}
	if !ok {
		return NotApplicable("no :max-chars is set")
	}
	key, said, ok := Text(s.Result)
	if !ok {
		return NotApplicable("the answer has no text")
	}
	if n := utf8.RuneCountInString(said); int64(n) > limit {
		return Failed(Finding{
			Path:    textPath(key),
			Message: fmt.Sprintf("the text has %d characters, %d are allowed", n, limit),
			Fix:     fmt.Sprintf("shorten the text to %d characters", limit),
		})
	}
	return Passed()
}

// checkJSONValid requires the answer's text to be one JSON document.
func checkJSONValid(s Subject) Outcome {
	key, said, ok := Text(s.Result)
	if !ok {
		return NotApplicable("the answer has no text")
	}
	if !json.Valid([]byte(said)) {
		return Failed(Finding{Path: textPath(key), Message: "the text is not one valid JSON document"})
	}
	return Passed()
}

func textPath(key string) []edn.Value {
	if key == "" {
		return nil
	}
	return []edn.Value{edn.K(key)}
}

// textKeys are tried in this order (SLOT-008).
var textKeys = func() (ks [7]struct {
	name string
	key  edn.Value
}) {
	for i, name := range [...]string{"text", "content", "summary", "answer", "explanation", "code", "patch"} {
		ks[i].name, ks[i].key = name, edn.K(name)
	}
	return ks
}()

// Text returns the text of an answer: the first non-blank string under the text
// keys, with its key; or the answer itself if it is a non-blank string, without
// a key.
func Text(out edn.Value) (key, text string, ok bool) {
	if s, isString := out.AsString(); isString {
		return "", s, strings.TrimSpace(s) != ""
	}
	if out.Kind() != edn.KindMap {
		return "", "", false
	}
	for i := range textKeys {
		v, found := out.Get(textKeys[i].key)
		if !found {
			continue
		}
		if s, isString := v.AsString(); isString && strings.TrimSpace(s) != "" {
			return textKeys[i].name, s, true
		}
	}
	return "", "", false
}
