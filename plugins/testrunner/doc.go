// Command testrunner is the plugin that runs test suites and applies patches.
//
// Capability code/testrunner serves :code/test, and :code/patch-verdict, which
// applies a patch, runs the tests on the result and judges both. Capability
// code/patcher serves :code/apply-patch. All three give evidence for gates: the
// result of a suite or a patch is an answer, and only an input that cannot be
// used is an error, which names the invalid field.
//
// The directory of a request is never modified by a patch: patches are applied
// to a copy that exists until the run ends. Without a patch the suite runs in
// the directory itself, and its tests may write there.
//
// Test results are parsed from the output of go test -json, from TAP, and from
// JUnit reports; any other command is one test that its exit code decides.
//
// Tests run in their own session with a minimal environment and limits on time,
// memory and output, and all their processes are gone when a call returns.
package main
