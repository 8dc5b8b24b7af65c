package quality

import (
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// verdictKeys are tried in this order; the first present one decides
// (GATE-009).
var verdictKeys = [...]string{"ok?", "accepted?", "pass?", "legal?", "valid?", "applies?", "tests/pass?"}

// CapabilityInput returns the `:input` of the call of a capability check: the request's input, the
// answer and the check's parameters merged in this order, plus the whole request under
// :check/request and the answer under :check/result.
func CapabilityInput(c *Check, s Subject) edn.Value {
	var b edn.MapBuilder
	for _, part := range [...]edn.Value{s.Request.Key("input"), s.Result, c.Params} {
		if part.Kind() != edn.KindMap {
			continue
		}
		for k, v := range part.Entries() {
			b.Set(k, v)
		}
	}
	b.Key("check/request", s.Request)
	b.Key("check/result", s.Result)
	return b.Map()
}

// Interpret parses the answer (`:out`) of a capability check: a boolean, a collection of findings,
// or a map whose first present verdict key decides. Anything else is a check/error finding. The
// check registry.TestsPass also fails if the answer counts less than one test under :passed.
func Interpret(c *Check, out edn.Value, s Subject) Outcome {
	o := interpret(out)
	if ran, counted := out.Key("passed").AsInt(); c.Name == registry.TestsPass && o.Pass && counted && ran < 1 {
		o = Failed(Finding{Message: "no test was run", Fix: "add tests, or name where they are"})
	}
	return c.verdict(o, s)
}

// InterpretError returns the outcome of a capability check whose call failed or timed out:
// a check/error finding.
func InterpretError(c *Check, err error, s Subject) Outcome {
	return c.finish(Errored("check :"+c.Name+" could not be called: "+err.Error()), s)
}

func interpret(out edn.Value) Outcome {
	switch out.Kind() {
	case edn.KindBool:
		ok, _ := out.AsBool()
		return Outcome{Pass: ok}
	case edn.KindVector, edn.KindList, edn.KindSet:
		return interpretFindings(out)
	case edn.KindMap:
		return interpretMap(out)
	}
	return Errored("the answer is a " + out.Kind().String() + ", not a boolean, findings or a verdict map")
}

func interpretFindings(out edn.Value) Outcome {
	var fs []Finding
	for v := range out.Elems() {
		f, ok := readFinding(v)
		if !ok {
			return Errored("the answer holds a value that is not a finding")
		}
		fs = append(fs, f)
	}
	return Outcome{Pass: len(fs) == 0, Findings: fs}
}

func interpretMap(out edn.Value) Outcome {
	for _, key := range verdictKeys {
		v, ok := out.Get(edn.K(key))
		if !ok || v.IsNil() {
			continue
		}
		pass, isBool := v.AsBool()
		if !isBool {
			return Errored("the answer has :" + key + " that is not a boolean")
		}
		o := Outcome{Pass: pass}
		if fs := interpretFindings(out.Key("findings")); out.HasKey("findings") && isSequence(out.Key("findings")) {
			o.Findings = fs.Findings
		}
		return o
	}
	if fs, ok := out.Get(edn.K("findings")); ok && isSequence(fs) {
		return interpretFindings(fs)
	}
	return Errored("the answer has none of :ok? :accepted? :pass? :legal? :valid? :applies? :tests/pass?")
}

func isSequence(v edn.Value) bool {
	switch v.Kind() {
	case edn.KindVector, edn.KindList, edn.KindSet:
		return true
	}
	return false
}

// readFinding parses a finding of a capability: a map with a message, or plain
// text.
func readFinding(v edn.Value) (Finding, bool) {
	if text, ok := v.AsString(); ok {
		return Finding{Message: text}, true
	}
	if v.Kind() != edn.KindMap {
		return Finding{}, false
	}
	f := Finding{}
	f.Message, _ = v.Key("message").AsString()
	f.Fix, _ = v.Key("fix").AsString()
	if p := v.Key("path"); isSequence(p) {
		for e := range p.Elems() {
			f.Path = append(f.Path, e)
		}
	}
	if f.Message == "" {
		f.Message = v.String()
	}
	return f, true
}
