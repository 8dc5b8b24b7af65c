// Package doctor examines whether the machine has what a configuration needs.
//
// An Examination collects what was found, part by part; its methods add the
// parts of one area each. It belongs to one goroutine.
package doctor
