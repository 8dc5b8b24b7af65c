// Package wiretest is a model server for tests: it plays transcripts over real
// HTTP, including every way in which a server can break off, and has a clock that
// advances only when a test moves it.
//
// A transcript is a file *.wire: header lines, an empty line, then what the
// server does, step by step:
//
//	origin: authored            or recorded, with source and date
//	source: the public reference of the interface
//	date: 2026-11-22
//	request: POST /chat/completions
//	body: "stream":true         part of the request body; may repeat
//	status: 200
//	header: Content-Type: text/event-stream
//	text: Hello                 what every reader must see; see Want
//
//	| data: {"a":1}             a line of the body, with a line feed
//	|r data: x                  with CR LF
//	|- data: x                  without a line end
//	wait 120ms                  recorded pause
//	---                         sends the lines so far
//	cut | abort | reset | stall
//
// A Recorder is a proxy between a client and a server that writes the same form:
// origin recorded, with source and date, without the client's data and without
// the given secrets. An answer that would contain a secret is rejected.
//
// Only tests may import the package; a test checks that.
package wiretest
