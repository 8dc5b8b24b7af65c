// Package servertest is a model server for tests: a process that loads,
// answers, dies and misbehaves as it is told.
//
// The test binary is the server: TestMain calls Main, and Command is the command
// of the configuration. Words after it say how the server behaves from its
// start; what a question says decides how that one is answered.
//
//	exit=N say=TEXT       writes TEXT and ends with status N
//	gate=FILE             waits for FILE, or FILE-PORT, before it listens
//	loading=N             answers N probes with 503
//	nohealth              has no ready path
//	never                 never listens
//	elsewhere             listens on another port
//	tokenize              counts a token for each word
//	open                  listens on all addresses
//	first=STATUS:BODY     what the first question is answered with
//	each=STATUS:BODY      what every question is answered with
//	deaf                  ignores SIGINT and SIGTERM
//	spew=BYTES            writes so much to standard error
//	fork                  has a deaf child of its own
//	stdin                 ends at the line "bye"
//	mark=FILE             notes its start and its signals in FILE
//
//	die, die-late, exit   ends before, or after, a first piece
//	die-once:FILE         ends unless FILE is there, and makes it
//	oom, oom-exit         has no memory, and says so
//	freeze                stops as SIGSTOP does
//	slow                  answers without an end
//	hold:FILE             answers when FILE is there
//	model                 answers with the model and the limit of the request
//
// Only tests import the package.
package servertest
