// Package servertest is a model server for tests: a process that loads,
// answers, dies and misbehaves as scripted.
//
// The test binary is the server: TestMain calls Main, and Command is the command
// of the configuration. The words after it script the behavior of the server;
// words in a request script its answer.
//
//	exit=N say=TEXT       writes TEXT and ends with status N
//	gate=FILE             waits for FILE, or FILE-PORT, before it listens
//	loading=N             answers N probes with 503
//	nohealth              has no ready path
//	never                 never listens
//	elsewhere             listens on another port
//	tokenize              counts one token per word
//	open                  listens on all addresses
//	first=STATUS:BODY     answers the first request with this
//	each=STATUS:BODY      answers every request with this
//	deaf                  ignores SIGINT and SIGTERM
//	spew=BYTES            writes this much to standard error
//	fork                  starts a deaf child
//	stdin                 ends at the line "bye"
//	mark=FILE             records its start and its signals in FILE
//
//	die, die-late, exit   end before, or after, a first piece
//	die-once:FILE         ends unless FILE exists, and creates it
//	oom, oom-exit         reports that it is out of memory
//	freeze                stops as SIGSTOP does
//	slow                  answers without an end
//	hold:FILE             answers when FILE exists
//	model                 answers with the model and the limit of the request
//
// Only tests import the package.
package servertest
