package request

import (
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// rank orders the reasons of the shape group: the fault with the lowest rank is
// reported, and of equal ones the first in canonical order.
type rank uint8

const (
	rankNone rank = iota
	rankMissing
	rankUnknown
	rankType
	rankRange
	rankConflict
	rankProto
)

// shape reads the fields of one request and keeps the first fault.
type shape struct {
	r     *Request
	rank  rank
	worst *contract.Fault // a pointer, so that the request itself does not escape to the heap

	classes []string
	longest int64 // deadline, in milliseconds
}

func (s *shape) add(rank rank, make func() contract.Fault) {
	if s.rank == rankNone || rank < s.rank {
		s.rank, *s.worst = rank, make()
	}
}

var requestKeys = []string{
	"budget", "cap/id", "constraints", "context", "deadline-ms", "debug/plan?", "debug/transcript?", "dispatch", "done",
	"effects",
	"idempotency/key", "input", "model", "proto", "queue", "request/id", "response/type", "role", "routing", "session/id",
	"stream?",
	"system", "task", "trace",
}

// Keys returns the keys of a request, sorted.
func Keys() []string { return slices.Clone(requestKeys) }

var (
	taskKeys    = []string{"cap/id", "dispatch", "intent", "requires"}
	traceKeys   = []string{"id", "parent", "turn"}
	doneKeys    = []string{"must", "score-min", "should"}
	effectKeys  = []string{"allowed", "scope"}
	queueKeys   = []string{"class", "priority"}
	routingKeys = []string{
		"cap/id", "debug/plan?", "debug/transcript?", "force?", "intent", "meta?", "on-error", "profile", "strict?",
	}
)

// emptyMap is the value of omitted maps.
var emptyMap = edn.MustMap()

// noEffects is the value of omitted effects.
var noEffects = edn.MustMap(kAllowed, edn.Keywords("none"))

// readShape fills the fields of r from v and returns the first fault of the
// shape group.
func (r *Request) readShape(v edn.Value, env Env) *contract.Error {
	if v.Kind() != edn.KindMap {
		return invalidRequest("shape/not-map", "the request is not a map", nil).Expecting(kMap, v).Err()
	}
	*r = Request{
		Trace:        emptyMap,
		Dispatch:     emptyMap,
		Input:        emptyMap,
		Context:      emptyMap,
		Constraints:  emptyMap,
		Done:         emptyMap,
		Budget:       emptyMap,
		Effects:      noEffects,
		Routing:      emptyMap,
		ResponseType: "value",
	}
	var worst contract.Fault
	s := shape{r: r, worst: &worst, classes: env.Classes, longest: env.Deadlines.most()}
	s.require(v, edn.Value{}, kProto, kTrace, kTask, kInput)
	var streams, topCap edn.Value
	for key, val := range v.Entries() {
		name, _ := key.AsKeyword()
		switch name {
		case "stream?":
			streams = val
		case "cap/id":
			topCap = val
		default:
			s.top(name, key, val)
		}
	}
	s.reconcile(topCap, streams, v.HasKey("response/type"))
	if r.DeadlineMS == 0 {
		r.DeadlineMS = env.Deadlines.of(r.ResponseType)
	}
	if s.rank != rankNone {
		return worst.Err()
	}
	return nil
}

// top reads one entry of the request.
func (s *shape) top(name string, key, val edn.Value) {
	r := s.r
	none := edn.Value{}
	switch name {
	case "proto":
		s.proto(val)
	case "trace":
		r.Trace = s.submap(key, val, s.trace)
		s.require(val, key, kID)
	case "task":
		s.submap(key, val, s.task)
		s.require(val, key, kIntent)
	case "input":
		r.Input = s.mapping(none, key, val)
	case "context":
		r.Context = s.submap(key, val, s.context)
	case "constraints":
		r.Constraints = s.submap(key, val, s.constraint)
	case "done":
		r.Done = val
		s.closed(key, val, doneKeys)
	case "budget":
		r.Budget = s.mapping(none, key, val)
	case "effects":
		r.Effects = val
		s.closed(key, val, effectKeys)
	case "routing":
		r.Routing = s.submap(key, val, s.routing)
	case "queue":
		s.submap(key, val, s.queue)
	case "role":
		r.Role = s.keyword(none, key, val)
	case "model":
		r.Model = s.model(key, val)
	case "system":
		r.System = s.text(none, key, val)
	case "request/id":
		r.RequestID = s.id(none, key, val, idChars)
	case "session/id":
		r.SessionID = s.id(none, key, val, idChars)
	case "idempotency/key":
		r.IdempotencyKey = s.id(none, key, val, visibleASCII)
	case "response/type":
		r.ResponseType = s.oneOf(none, key, val, "value", "stream", "accepted")
	case "deadline-ms":
		r.DeadlineMS = s.int(none, key, val, 1, s.longest)
	case "debug/plan?":
		r.DebugPlan = s.bool(none, key, val) || r.DebugPlan
	case "debug/transcript?":
		r.DebugTranscript = s.bool(none, key, val) || r.DebugTranscript
	default:
		s.unknown(none, key, requestKeys)
	}
}

func (s *shape) proto(val edn.Value) {
	n, ok := val.AsInt()
	switch {
	case val.Kind() != edn.KindInt:
		s.wrongType(edn.Value{}, kProto, val, kInt)
	case !ok || n != contract.Proto:
		s.add(rankProto, func() contract.Fault {
			return invalidRequest("proto/unsupported", "this version of the envelope is not supported", path(kProto)).
				Expecting(edn.Vector(edn.K("enum"), edn.Int(contract.Proto)), val)
		})
	}
	s.r.Proto = contract.Proto
}

func (s *shape) trace(name string, key, val edn.Value) {
	switch name {
	case "id":
		s.sized(kTrace, key, val)
	case "turn":
		s.int(kTrace, key, val, 0, 1<<62)
	case "parent":
		s.hostOnly(kTrace, key)
	default:
		s.unknown(kTrace, key, traceKeys)
	}
}

func (s *shape) task(name string, key, val edn.Value) {
	switch name {
	case "intent":
		s.r.Intent = s.keyword(kTask, key, val)
	case "cap/id":
		s.r.CapID = s.keyword(kTask, key, val)
	case "requires":
	case "dispatch":
		s.r.Dispatch = val
	default:
		s.unknown(kTask, key, taskKeys)
	}
}

func (s *shape) context(name string, key, _ edn.Value) {
	if name == "prompt" || name == "repair" {
		s.hostOnly(kContext, key)
	}
}

func (s *shape) constraint(name string, key, val edn.Value) {
	switch name {
	case "language", "style":
		s.keyword(kConstraints, key, val)
	case "max-chars":
		s.int(kConstraints, key, val, 1, 12_000)
	case "no-web":
		s.bool(kConstraints, key, val)
	}
}

func (s *shape) routing(name string, key, val edn.Value) {
	switch name {
	case "meta?", "strict?", "force?":
		s.bool(kRouting, key, val)
	case "debug/plan?":
		s.r.DebugPlan = s.bool(kRouting, key, val) || s.r.DebugPlan
	case "debug/transcript?":
		s.r.DebugTranscript = s.bool(kRouting, key, val) || s.r.DebugTranscript
	case "on-error":
		s.oneOf(kRouting, key, val, "fail-open", "fail-closed")
	case "profile", "intent", "cap/id":
		s.keyword(kRouting, key, val)
	default:
		s.unknown(kRouting, key, routingKeys)
	}
}

func (s *shape) queue(name string, key, val edn.Value) {
	switch name {
	case "class":
		s.r.QueueClass = s.oneOf(kQueue, key, val, s.classes...)
	case "priority":
		s.r.Priority = int(s.int(kQueue, key, val, -9, 9))
	default:
		s.unknown(kQueue, key, queueKeys)
	}
}

// reconcile resolves fields that have two spellings.
func (s *shape) reconcile(topCap, streams edn.Value, typed bool) {
	none := edn.Value{}
	if !topCap.IsNil() {
		name := s.keyword(none, kCapID, topCap)
		if s.r.CapID != "" && s.r.CapID != name && name != "" {
			s.conflict(kCapID, topCap, "the request names different capabilities under :cap/id and in :task")
		}
		s.r.CapID = name
	}
	if streams.IsNil() {
		return
	}
	wants := s.bool(none, kStream, streams)
	if typed && streams.Kind() == edn.KindBool && wants != (s.r.ResponseType == "stream") {
		s.conflict(kStream, streams, ":stream? and :response/type ask for different forms of answer")
	}
	if wants {
		s.r.ResponseType = "stream"
	}
}

// require reports the first of the keys that is missing in the map m found under parent. Another
// kind of value is not reported.
func (s *shape) require(m, parent edn.Value, keys ...edn.Value) {
	if m.Kind() != edn.KindMap {
		return
	}
	for _, key := range keys {
		if !m.Has(key) {
			s.add(rankMissing, func() contract.Fault {
				return invalidRequest("shape/missing-key", "the request lacks "+key.String()+meant(m, key), at(parent, key))
			})
			return
		}
	}
}

// meant suggests the key of the map nearest to a missing one.
func meant(m, missing edn.Value) string {
	name, _ := missing.AsKeyword()
	var others []string
	for k := range m.Entries() {
		if other, ok := k.AsKeyword(); ok {
			others = append(others, other)
		}
	}
	if near := contract.Nearest(name, others); near != "" {
		return "; is :" + near + " meant?"
	}
	return ""
}

// planKeys are keys under which a plan is sent by mistake.
var planKeys = []string{"plan", "plan/body", "plan/id", "nodes"}

func (s *shape) unknown(parent, key edn.Value, known []string) {
	s.add(rankUnknown, func() contract.Fault {
		f := invalidRequest("shape/unknown-key", "the request has an unknown key "+contract.Excerpt(key),
			at(parent, edn.Value{})).Named(key, known)
		if name, _ := key.AsKeyword(); slices.Contains(planKeys, name) {
			f.Hint = "send a plan as {:task {:intent :plan/run} :input {:plan {:nodes [...]}}}"
			f.Nearest = edn.Nil()
		}
		return f
	})
}

func (s *shape) hostOnly(parent, key edn.Value) {
	s.add(rankUnknown, func() contract.Fault {
		f := invalidRequest("shape/unknown-key",
			"the request has the key "+key.String()+", which only the host may set", at(parent, edn.Value{}))
		f.Got, f.HasGot = key, true
		return f
	})
}

func (s *shape) wrongType(parent, key, got, expected edn.Value) {
	s.add(rankType, func() contract.Fault {
		return invalidRequest("shape/wrong-type", "the request has a value of the wrong type", at(parent, key)).
			Expecting(expected, got)
	})
}

func (s *shape) outOfRange(parent, key, got, expected edn.Value) {
	s.add(rankRange, func() contract.Fault {
		return invalidRequest("shape/out-of-range", "the request has a value out of range", at(parent, key)).
			Expecting(expected, got)
	})
}

func (s *shape) conflict(key, got edn.Value, message string) {
	s.add(rankConflict, func() contract.Fault {
		f := invalidRequest("shape/conflict", message, path(key))
		f.Got, f.HasGot = got, true
		return f
	})
}

// at returns the path of key under parent; either may be absent.
func at(parent, key edn.Value) []edn.Value {
	switch {
	case parent.IsNil() && key.IsNil():
		return nil
	case parent.IsNil():
		return path(key)
	case key.IsNil():
		return path(parent)
	}
	return path(parent, key)
}

// mapping returns val if it is a map, otherwise the empty map and a fault.
func (s *shape) mapping(parent, key, val edn.Value) edn.Value {
	if val.Kind() != edn.KindMap {
		s.wrongType(parent, key, val, kMap)
		return emptyMap
	}
	return val
}

// submap calls read for each entry of the map val.
func (s *shape) submap(key, val edn.Value, read func(name string, key, val edn.Value)) edn.Value {
	m := s.mapping(edn.Value{}, key, val)
	for k, v := range m.Entries() {
		name, _ := k.AsKeyword()
		read(name, k, v)
	}
	return m
}

// closed reports unknown keys of the map val. A value that is not a map is left
// to a later group.
func (s *shape) closed(key, val edn.Value, known []string) {
	if val.Kind() != edn.KindMap {
		return
	}
next:
	for k := range val.Entries() {
		name, _ := k.AsKeyword()
		for _, n := range known {
			if n == name {
				continue next
			}
		}
		s.unknown(key, k, known)
	}
}

func (s *shape) keyword(parent, key, val edn.Value) string {
	name, ok := val.AsKeyword()
	if !ok {
		s.wrongType(parent, key, val, kKeyword)
	}
	return name
}

func (s *shape) text(parent, key, val edn.Value) string {
	t, ok := val.AsString()
	if !ok {
		s.wrongType(parent, key, val, kString)
	}
	return t
}

func (s *shape) model(key, val edn.Value) string {
	if name, ok := val.AsKeyword(); ok {
		return name
	}
	t, ok := val.AsString()
	if !ok {
		s.wrongType(edn.Value{}, key, val, edn.Vector(edn.K("or"), kKeyword, kString))
	}
	return t
}

func (s *shape) bool(parent, key, val edn.Value) bool {
	b, ok := val.AsBool()
	if !ok {
		s.wrongType(parent, key, val, kBoolean)
	}
	return b
}

func (s *shape) int(parent, key, val edn.Value, low, high int64) int64 {
	if val.Kind() != edn.KindInt {
		s.wrongType(parent, key, val, kInt)
		return 0
	}
	n, ok := val.AsInt()
	if !ok || n < low || n > high {
		s.outOfRange(parent, key, val, between(kInt, low, high))
		return 0
	}
	return n
}

// sized reads a string of 1 to 128 code points.
func (s *shape) sized(parent, key, val edn.Value) string {
	t := s.text(parent, key, val)
	if val.Kind() == edn.KindString && (t == "" || len(t) > maxID && len([]rune(t)) > maxID) {
		s.outOfRange(parent, key, val, between(kString, 1, maxID))
	}
	return t
}

// maxID is the longest identifier of a request.
const maxID = 128

// id reads a string of 1 to 128 characters that allowed accepts.
func (s *shape) id(parent, key, val edn.Value, allowed charset) string {
	t := s.text(parent, key, val)
	if val.Kind() == edn.KindString && (t == "" || len(t) > maxID || strings.ContainsFunc(t, allowed.refuses)) {
		s.outOfRange(parent, key, val, edn.Vector(edn.K("re"), edn.Text(allowed.pattern)))
	}
	return t
}

type charset struct {
	refuses func(rune) bool
	pattern string
}

var idChars = charset{
	refuses: func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		digit := r >= '0' && r <= '9'
		return !letter && !digit && !strings.ContainsRune("._:-", r)
	},
	pattern: `^[A-Za-z0-9._:-]{1,128}$`,
}

var visibleASCII = charset{
	refuses: func(r rune) bool { return r < 0x21 || r > 0x7e },
	pattern: `^[\x21-\x7e]{1,128}$`,
}

// oneOf reads a keyword out of a fixed set. The fault of any other value lists
// the set and the nearest word.
func (s *shape) oneOf(parent, key, val edn.Value, words ...string) string {
	name, isKeyword := val.AsKeyword()
	if isKeyword && slices.Contains(words, name) {
		return name
	}
	rank, reason, message := rankRange, "shape/out-of-range", "the request has a value out of range"
	if !isKeyword {
		rank, reason, message = rankType, "shape/wrong-type", "the request has a value of the wrong type"
	}
	s.add(rank, func() contract.Fault {
		expected := edn.Vector(append([]edn.Value{edn.K("enum")}, keywords(words)...)...)
		return invalidRequest(reason, message, at(parent, key)).Named(val, words).Expecting(expected, val)
	})
	return words[0]
}
