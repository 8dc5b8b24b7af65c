// Package wiretest is a model server for tests: it plays transcripts over real
// HTTP, with every way in which a server can break off, and a clock that stands
// still until a test moves it.
//
// A transcript is a file *.wire: header lines, an empty line, then what the
// server does, step by step:
//
//	origin: authored            or recorded, with source and date
//	source: the public reference of the interface
//	date: 2026-11-22
//	request: POST /chat/completions
//	body: "stream":true         what the request must hold; may repeat
//	status: 200
//	header: Content-Type: text/event-stream
//	text: Hello                 what every reader must see; see Want
//
//	| data: {"a":1}             a line of the body, with a line feed
//	|r data: x                  with CR LF
//	|- data: x                  without a line end
//	wait 120ms                  how long a recorded server took before it
//	---                         what came so far is sent
//	cut | abort | reset | stall
//
// A Recorder stands between a client and a server and writes the same form:
// origin recorded, with source and date, without what the client sent and
// without the secrets that it is told. An answer that would keep one is refused.
//
// Only tests may import the package; a test holds that.
package wiretest
