// Package flowtest checks the law of package flow: a machine to which the first
// events of an operation are applied has the commands open that were open in the
// operation at that point.
package flowtest
