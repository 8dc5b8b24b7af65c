// Command testrunner is the plugin that tries code out: it runs test suites and
// applies patches.
//
// Capability code/testrunner serves :code/test, and :code/patch-verdict, which
// applies a patch, runs the tests on the result and judges both. Capability
// code/patcher serves :code/apply-patch. All three give evidence for gates: what
// a suite or a patch does is an answer, and only an input that cannot be tried
// is an error, which names the field at fault.
//
// The directory of a request is never written to: a patch is applied to a copy
// that lives until the run ends. Without a patch the suite runs in the directory
// itself, and what its tests write is theirs.
//
// The tests of a suite are read out of what go test -json writes, out of TAP, and
// out of JUnit reports; any other command is one test that its exit code decides.
//
// Tests run in a session of their own with little environment, bounded in time,
// memory and output, and nothing of them is left when a call returns.
package main
