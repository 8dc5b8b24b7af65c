package contract

import "strings"

// Class determines what the evaluator may do after a failed attempt.
type Class uint8

// The classes of the catalogue.
const (
	// ClassNone marks outcomes that are never an answer, such as a lost race.
	ClassNone Class = iota
	// ClassRetry allows another attempt with the same executor.
	ClassRetry
	// ClassSwitch allows an attempt with the next executor.
	ClassSwitch
	// ClassRepair allows another attempt with the same executor, with the
	// findings.
	ClassRepair
	// ClassStop ends the node unless its type is named in a switch-on set.
	ClassStop
	// ClassFinal, written stop!, ends the node; no switch-on set can change
	// that.
	ClassFinal
)

var classNames = [...]string{"none", "retry", "switch", "repair", "stop", "stop!"}

// String returns the name of the class in data, without a colon.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "invalid"
}

// ParseClass reads the name of a class, with or without a leading colon.
func ParseClass(name string) (Class, bool) {
	name = strings.TrimPrefix(name, ":")
	for i, n := range classNames {
		if n == name {
			return Class(i), true
		}
	}
	return ClassNone, false
}

// Source is the party that caused a failure. Only failures of [SourcePlugin]
// count against the health of a plugin.
type Source uint8

// The sources of a failure. The zero value means unknown.
const (
	// SourceRequest is the sender of the request.
	SourceRequest Source = iota + 1
	// SourceHost is the ferment process, its configuration or its machine.
	SourceHost
	// SourcePlugin is the plugin process.
	SourcePlugin
	// SourceDownstream is a backend of a plugin, such as a model server.
	SourceDownstream
)

var sourceNames = [...]string{"unknown", "request", "host", "plugin", "downstream"}

// String returns the name of the source in data, without a colon.
func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "invalid"
}

// ParseSource reads the name of a source, with or without a leading colon.
func ParseSource(name string) (Source, bool) {
	name = strings.TrimPrefix(name, ":")
	for i, n := range sourceNames[1:] {
		if n == name {
			return Source(i + 1), true
		}
	}
	return 0, false
}

// SourceSet is a set of sources.
type SourceSet uint8

// sourcesOf returns the set of the given sources.
func sourcesOf(members ...Source) SourceSet {
	var s SourceSet
	for _, m := range members {
		s |= 1 << m
	}
	return s
}

// Has reports whether source is a member.
func (s SourceSet) Has(source Source) bool { return s&(1<<source) != 0 }

// List returns the members in the order request, host, plugin, downstream.
func (s SourceSet) List() []Source {
	var list []Source
	for m := SourceRequest; m <= SourceDownstream; m++ {
		if s.Has(m) {
			list = append(list, m)
		}
	}
	return list
}

// GateSource returns the source of a gate failure. For models and agents it is
// the backend of the plugin; every other kind of capability computes the answer
// in the plugin itself.
func GateSource(capKind string) Source {
	if capKind == "llm" || capKind == "agent" {
		return SourceDownstream
	}
	return SourcePlugin
}
