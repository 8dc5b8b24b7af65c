//go:build linux && !amd64 && !arm64

package confine

// No filter is written for this architecture; Probe says so.
const auditArch, mapCall = 0, 0

var (
	forkCalls, attributeCalls, sharedCalls, memoryCalls, watchCalls []int

	modeCalls []modeCall
)
