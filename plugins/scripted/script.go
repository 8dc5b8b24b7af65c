package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxScript is the largest script in bytes.
const maxScript = 4 << 20

// script is a validated script.
type script struct {
	roles   map[string]role
	schemas map[string]edn.Value
}

// role is one capability of a script.
type role struct {
	meta  contract.Capability
	steps []step
	cycle bool
	after *step // the step after the last one; nil: repeat the last one
}

// step is the behavior of one call: wait, send pieces, then the action.
type step struct {
	delay  time.Duration
	gap    time.Duration
	pieces []edn.Value
	action action
	arg    edn.Value
	more   edn.Value // :bindings of a plan
	usage  edn.Value
	meta   edn.Value
}

type action string

const (
	actValue    action = "value"
	actError    action = "error"
	actTemplate action = "template"
	actPlan     action = "plan"
	actRaw      action = "raw"
	actCrash    action = "crash"
	actHang     action = "hang"
	actAsk      action = "ask"
	actFold     action = "" // answer with the text of the pieces
)

var (
	actions   = []string{"value", "error", "template", "plan", "raw", "crash", "hang", "ask"}
	modifiers = []string{"stream", "delay-ms", "chunk-ms", "bindings", "usage", "meta"}
)

// scriptError is one mistake in a script.
type scriptError struct {
	source  string
	at      edn.Position
	message string
}

func (e *scriptError) Error() string {
	if e.at.Line == 0 {
		return fmt.Sprintf("%s: %s", e.source, e.message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.source, e.at.Line, e.at.Column, e.message)
}

type scriptErrors []*scriptError

func (e scriptErrors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// scriptReader collects all mistakes.
type scriptReader struct {
	source    string
	positions *edn.Positions
	faults    scriptErrors
}

// readScript parses and validates a script. Errors are scriptErrors.
func readScript(text []byte, source string) (script, error) {
	v, positions, err := edn.ReadWithPositions(text, edn.WithLimits(edn.Body), edn.WithSource(source))
	if err != nil {
		return script{}, scriptErrors{syntaxFault(err, source)}
	}
	r := &scriptReader{source: source, positions: positions}
	s := r.script(v)
	if len(r.faults) > 0 {
		return script{}, r.faults
	}
	return s, nil
}

func syntaxFault(err error, source string) *scriptError {
	var syntax *edn.SyntaxError
	if errors.As(err, &syntax) {
		return &scriptError{source: source, at: syntax.Pos, message: syntax.Message}
	}
	return &scriptError{source: source, message: err.Error()}
}

// fault reports a problem of the value at path.
func (r *scriptReader) fault(path []edn.Value, format string, args ...any) {
	span, _ := r.positions.At(path...)
	r.add(span.Start, format, args...)
}

// keyFault reports a problem of the key that ends path.
func (r *scriptReader) keyFault(path []edn.Value, format string, args ...any) {
	span, _ := r.positions.KeyAt(path...)
	r.add(span.Start, format, args...)
}

func (r *scriptReader) add(at edn.Position, format string, args ...any) {
	r.faults = append(r.faults, &scriptError{source: r.source, at: at, message: fmt.Sprintf(format, args...)})
}

func (r *scriptReader) script(v edn.Value) script {
	s := script{roles: map[string]role{}, schemas: map[string]edn.Value{}}
	if v.Kind() != edn.KindMap {
		r.fault(nil, "a script is a map with :capabilities, not %.80s", v)
		return s
	}
	r.known(nil, v, "a script", []string{"capabilities", "schemas"})
	for name, form := range v.Key("schemas").All() {
		word, ok := name.AsKeyword()
		if !ok {
			r.fault([]edn.Value{edn.K("schemas")}, "the name of a schema is a keyword, not %s", name)
		}
		s.schemas[word] = form
	}
	path := []edn.Value{edn.K("capabilities")}
	capabilities := v.Key("capabilities")
	if capabilities.Kind() != edn.KindMap || capabilities.Len() == 0 {
		r.fault(path, ":capabilities is a map of at least one capability, not %.80s", capabilities)
		return s
	}
	for id, body := range capabilities.Entries() {
		at := append(slices.Clone(path), id)
		word, ok := id.AsKeyword()
		if !ok || body.Kind() != edn.KindMap {
			r.keyFault(at, "a capability is a keyword with a map, not %s", id)
			continue
		}
		s.roles[word] = r.role(at, id, body)
	}
	return s
}

// roleKeys are the keys of a capability that are not metadata.
var roleKeys = []string{"steps", "then"}

func (r *scriptReader) role(at []edn.Value, id, body edn.Value) role {
	var out role
	steps := body.Key("steps")
	if steps.Kind() != edn.KindVector || steps.Len() == 0 {
		r.fault(at, "%s: :steps is a vector of at least one step, not %.80s", id, steps)
	}
	plans, values := false, false
	for i := range steps.Len() {
		form, _ := steps.Nth(i)
		s := r.step(append(slices.Clone(at), edn.K("steps"), edn.Int(int64(i))), form)
		plans = plans || s.action == actPlan
		values = values || s.action == actValue || s.action == actTemplate || s.action == actFold
		out.steps = append(out.steps, s)
	}
	r.then(at, body.Key("then"), &out)
	out.meta = r.metadata(at, id, body, plans, values || !plans)
	return out
}

func (r *scriptReader) then(at []edn.Value, then edn.Value, out *role) {
	word, isWord := then.AsKeyword()
	switch {
	case then.IsNil(), word == "repeat-last":
	case word == "cycle":
		out.cycle = true
	case isWord || then.Kind() != edn.KindMap:
		r.fault(append(slices.Clone(at), edn.K("then")), ":then is :repeat-last, :cycle or a step, not %s", then)
	default:
		s := r.step(append(slices.Clone(at), edn.K("then")), then)
		out.after = &s
	}
}

// metadata parses the other keys of the body as capability metadata: scripts omit the namespaces,
// and required fields have defaults.
func (r *scriptReader) metadata(at []edn.Value, id, body edn.Value, plans, values bool) contract.Capability {
	var m edn.MapBuilder
	m.Key("cap/id", id)
	m.Key("cap/kind", edn.K("tool"))
	m.Key("cap/intents", edn.SetOf())
	m.Key("io/in-schema", edn.K("req/any"))
	m.Key("io/out-schema", edn.K("res/any"))
	switch {
	case plans && values:
		m.Key("cap/can-produce", edn.Keywords("plan", "value"))
	case plans:
		m.Key("cap/can-produce", edn.Keywords("plan"))
	}
	for key, v := range body.Entries() {
		word, ok := key.AsKeyword()
		switch {
		case !ok:
			r.keyFault(append(slices.Clone(at), key), "%s: unknown key %s", id, key)
		case slices.Contains(roleKeys, word):
		case word == "in-schema" || word == "out-schema":
			m.Key("io/"+word, v)
		case strings.Contains(word, "/"):
			m.Set(key, v)
		default:
			m.Key("cap/"+word, v)
		}
	}
	c, err := contract.ParseCapability(m.Map())
	if err != nil {
		r.fault(at, "%s: %v", id, err)
	}
	return c
}

func (r *scriptReader) step(at []edn.Value, form edn.Value) step {
	s := step{action: actFold}
	if form.Kind() != edn.KindMap {
		r.fault(at, "a step is a map, not %s", form)
		return s
	}
	good := r.known(at, form, "a step", append(slices.Clone(actions), modifiers...))
	for _, name := range actions {
		arg, found := form.Get(edn.K(name))
		if !found {
			continue
		}
		if s.action != actFold {
			r.fault(at, "a step has one action, not both :%s and :%s", s.action, name)
		}
		s.action, s.arg = action(name), arg
	}
	s.delay = r.duration(at, form, "delay-ms")
	s.gap = r.duration(at, form, "chunk-ms")
	s.more, s.usage, s.meta = r.mapAt(at, form, "bindings"), r.mapAt(at, form, "usage"), r.mapAt(at, form, "meta")
	if stream, found := form.Get(edn.K("stream")); found {
		s.pieces = r.pieces(at, stream)
	} else if s.action == actFold && good { // an unknown key may be a misspelt action
		r.fault(at, "a step has one of :%s, or :stream", strings.Join(actions, " :"))
	}
	r.argument(at, s)
	return s
}

// argument validates the argument of an action.
func (r *scriptReader) argument(at []edn.Value, s step) {
	switch s.action {
	case actError:
		if !s.arg.Key("type").IsKeyword() {
			r.fault(at, ":error is a map with a :type, not %.80s", s.arg)
		}
	case actPlan:
		if s.arg.Kind() != edn.KindMap {
			r.fault(at, ":plan is a map, not %.80s", s.arg)
		}
	case actRaw:
		if !s.arg.IsString() {
			r.fault(at, ":raw is a string, not %.80s", s.arg)
		}
	case actAsk:
		r.ask(append(slices.Clone(at), edn.K("ask")), s.arg)
	case actHang:
		if b, _ := s.arg.AsBool(); !b {
			r.fault(at, ":hang is true, not %s", s.arg)
		}
	case actCrash:
		word, _ := s.arg.AsKeyword()
		if _, ok := crashOf(word); !ok {
			r.fault(at, ":crash is :sigkill, :panic or :exit-n with n from 0 to 255, not %s", s.arg)
		}
	}
}

// askKeys are the keys of :ask.
var askKeys = []string{"intent", "cap/ref", "handle", "input", "times", "stream"}

// ask validates a host call: an intent, or the capability of a handle. The handle is in the input
// of the call, or is a made-up one.
func (r *scriptReader) ask(at []edn.Value, ask edn.Value) {
	if ask.Kind() != edn.KindMap {
		r.fault(at, ":ask is a map, not %s", ask)
		return
	}
	r.known(at, ask, ":ask", askKeys)
	for _, name := range []string{"intent", "cap/ref"} {
		if v, found := ask.Get(edn.K(name)); found && !v.IsKeyword() {
			r.fault(append(slices.Clone(at), edn.K(name)), ":%s is a keyword, not %s", name, v)
		}
	}
	if !ask.HasKey("intent") && !ask.HasKey("cap/ref") && !ask.HasKey("handle") {
		r.fault(at, ":ask names an :intent, or by :handle the path of a handle in the input")
	}
	if v, found := ask.Get(edn.K("handle")); found && v.Kind() != edn.KindVector {
		r.fault(append(slices.Clone(at), edn.K("handle")), ":handle is a path in the input, not %s", v)
	}
	if n, ok := ask.Key("times").AsInt(); ask.HasKey("times") && (!ok || n < 1) {
		r.fault(append(slices.Clone(at), edn.K("times")), ":times is a number from 1, not %s", ask.Key("times"))
	}
}

func (r *scriptReader) pieces(at []edn.Value, stream edn.Value) []edn.Value {
	at = append(slices.Clone(at), edn.K("stream"))
	if stream.Kind() != edn.KindVector {
		r.fault(at, ":stream is a vector of strings and maps, not %.80s", stream)
		return nil
	}
	pieces := slices.Collect(stream.Elems())
	for _, p := range pieces {
		if !p.IsString() && !p.IsMap() {
			r.fault(at, "a piece of a stream is a string or a map, not %s", p)
		}
	}
	return pieces
}

// maxWait bounds one wait of a script; :hang waits without end.
const maxWait = time.Hour

func (r *scriptReader) duration(at []edn.Value, form edn.Value, name string) time.Duration {
	v, found := form.Get(edn.K(name))
	if !found {
		return 0
	}
	ms, ok := v.AsInt()
	if !ok || ms < 0 || ms > maxWait.Milliseconds() {
		r.fault(append(slices.Clone(at), edn.K(name)), ":%s is a number of milliseconds from 0 to %d, not %s", name,
			maxWait.Milliseconds(), v)
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func (r *scriptReader) mapAt(at []edn.Value, form edn.Value, name string) edn.Value {
	v := form.Key(name)
	if !v.IsNil() && v.Kind() != edn.KindMap {
		r.fault(append(slices.Clone(at), edn.K(name)), ":%s is a map, not %s", name, v)
	}
	return v
}

// known reports unknown keys of a map as problems, with the nearest known key, or all known keys if
// none is near. It returns false if there are any.
func (r *scriptReader) known(at []edn.Value, m edn.Value, what string, names []string) bool {
	good := true
	for key := range m.Entries() {
		word, ok := key.AsKeyword()
		if ok && slices.Contains(names, word) {
			continue
		}
		good = false
		hint := ": the keys are :" + strings.Join(names, " :")
		if near := contract.Nearest(word, names); near != "" {
			hint = fmt.Sprintf(", did you mean :%s?", near)
		}
		r.keyFault(append(slices.Clone(at), key), "unknown key %s in %s%s", key, what, hint)
	}
	return good
}
