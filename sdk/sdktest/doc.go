// Package sdktest tests plugins that are written with package sdk.
//
// [Serve] runs a plugin inside the test over a real gRPC connection, with a
// host that keeps state in memory ([Host]) and a readable log. At the end of
// the test it stops the plugin and fails the test if goroutines of the plugin
// are left. [Start] does the same with a separate process: it runs the test
// binary again, which [Main] turns into the plugin, so that a test can kill or
// stop it with signals. [Conform] runs the conformance checks, each as a
// subtest:
//
//	func TestMain(m *testing.M) { sdktest.Main(m, newPlugin()) }
//
//	func TestConformance(t *testing.T) { sdktest.Conform(t, newPlugin()) }
//
//	func TestGreets(t *testing.T) {
//		p := sdktest.Serve(t, newPlugin())
//		out := p.MustInvoke("demo/greeter", map[string]any{"name": "Ada"})
//		...
//	}
//
// Helpers fail the test; call them from its goroutine. Otherwise Plugin is safe
// for concurrent use.
package sdktest
