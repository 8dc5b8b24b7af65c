// Package flowtest checks the invariant of package flow: a machine to which the
// first n events of an operation are applied has the same open commands as the
// operation had after event n.
package flowtest
