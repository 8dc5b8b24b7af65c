// Package worker is what is known about one model server and what follows from
// it: its states, when it may be started again, and what has to be done next.
//
// A Machine is told what happened (a call wants the server, the process said
// something, it ended, somebody froze it) and answers with transitions, which
// are events for people and logs, and with actions, which are orders for whoever
// has processes. A Record counts the deaths of all servers of one model and says
// until when none is started.
//
//	cold -> starting -> ready <-> busy -> draining -> cold | frozen | stopped | failed
//	        starting -> failed(reason, until)          frozen -> cold
//
// Everything here is pure: no process, no clock, no goroutine. Times come in as
// values. A Machine and its Record belong to one goroutine or one lock.
package worker
