// Package worker is the state machine of one model server: its states, when it may be restarted,
// and the actions to take.
//
// A Machine receives events (a call wants the server, the process became ready or ended, an
// operator froze it) and returns transitions, which are reported and logged, and actions, which the
// owner of the processes executes. A Record counts the crashes of all servers of one model and
// blocks starts for a time after too many.
//
//	cold -> starting -> ready <-> busy -> draining -> cold | frozen | stopped | failed
//	        starting -> failed(reason, until)          frozen -> cold
//
// Everything is pure: no process, no clock, no goroutine. Times are passed in as values. A Machine
// and its Record must be used by one goroutine or under one lock.
package worker
