package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	goproto "google.golang.org/protobuf/proto"

	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
)

// Field numbers of CallContext in plugin.proto.
const (
	fieldContextTrace     protowire.Number = 1
	fieldContextRun       protowire.Number = 2
	fieldContextNode      protowire.Number = 3
	fieldContextPath      protowire.Number = 4
	fieldContextAttempt   protowire.Number = 5
	fieldContextDeadline  protowire.Number = 6
	fieldContextBudget    protowire.Number = 7
	fieldContextEffects   protowire.Number = 8
	fieldContextScope     protowire.Number = 9
	fieldContextEffectKey protowire.Number = 10
	fieldContextStack     protowire.Number = 11
	fieldContextCallID    protowire.Number = 12
	fieldContextPrincipal protowire.Number = 13
	fieldContextPermits   protowire.Number = 14
)

// appendContext writes c like the generated code, without reflection. Anything
// that the generated code would reject is left to it.
func appendContext(out []byte, c *pluginv1.CallContext) ([]byte, error) {
	if len(c.ProtoReflect().GetUnknown()) > 0 || !validContext(c) {
		return goproto.MarshalOptions{}.MarshalAppend(out, c)
	}
	text := func(n protowire.Number, s string) {
		if s != "" {
			out = protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), s)
		}
	}
	part := func(n protowire.Number, b []byte) {
		if len(b) > 0 {
			out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), b)
		}
	}
	number := func(n protowire.Number, v uint64) {
		if v != 0 {
			out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), v)
		}
	}
	texts := func(n protowire.Number, all []string) {
		for _, s := range all {
			out = protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), s)
		}
	}
	text(fieldContextTrace, c.TraceParent)
	text(fieldContextRun, c.Run)
	text(fieldContextNode, c.Node)
	part(fieldContextPath, c.Path)
	number(fieldContextAttempt, uint64(c.Attempt))
	number(fieldContextDeadline, uint64(c.DeadlineUnixNano))
	part(fieldContextBudget, c.Budget)
	texts(fieldContextEffects, c.Effects)
	part(fieldContextScope, c.Scope)
	text(fieldContextEffectKey, c.EffectKey)
	texts(fieldContextStack, c.Stack)
	text(fieldContextCallID, c.CallId)
	text(fieldContextPrincipal, c.Principal)
	texts(fieldContextPermits, c.Permits)
	return out, nil
}

func validContext(c *pluginv1.CallContext) bool {
	for _, s := range [...]string{c.TraceParent, c.Run, c.Node, c.EffectKey, c.CallId, c.Principal} {
		if !utf8.ValidString(s) {
			return false
		}
	}
	for _, all := range [...][]string{c.Effects, c.Stack, c.Permits} {
		for _, s := range all {
			if !utf8.ValidString(s) {
				return false
			}
		}
	}
	return true
}

// readContext reads the output of appendContext; it returns false for anything
// else. The strings share one copy of text; the values share text itself.
func readContext(text []byte, c *pluginv1.CallContext) bool {
	names := string(text)
	for rest := text; len(rest) > 0; {
		n, kind, size := protowire.ConsumeTag(rest)
		if size < 0 {
			return false
		}
		rest = rest[size:]
		if kind == protowire.VarintType {
			v, size := protowire.ConsumeVarint(rest)
			if size < 0 {
				return false
			}
			rest = rest[size:]
			switch n {
			case fieldContextAttempt:
				c.Attempt = uint32(v)
			case fieldContextDeadline:
				c.DeadlineUnixNano = int64(v)
			default:
				return false
			}
			continue
		}
		if kind != protowire.BytesType {
			return false
		}
		part, size := protowire.ConsumeBytes(rest)
		if size < 0 {
			return false
		}
		rest = rest[size:]
		end := len(text) - len(rest)
		name := names[end-len(part) : end]
		switch n {
		case fieldContextPath:
			c.Path = part[:len(part):len(part)]
			continue
		case fieldContextBudget:
			c.Budget = part[:len(part):len(part)]
			continue
		case fieldContextScope:
			c.Scope = part[:len(part):len(part)]
			continue
		case fieldContextTrace:
			c.TraceParent = name
		case fieldContextRun:
			c.Run = name
		case fieldContextNode:
			c.Node = name
		case fieldContextEffects:
			c.Effects = append(c.Effects, name)
		case fieldContextEffectKey:
			c.EffectKey = name
		case fieldContextStack:
			c.Stack = append(c.Stack, name)
		case fieldContextCallID:
			c.CallId = name
		case fieldContextPrincipal:
			c.Principal = name
		case fieldContextPermits:
			c.Permits = append(c.Permits, name)
		default:
			return false
		}
		if !utf8.ValidString(name) {
			return false
		}
	}
	return true
}
