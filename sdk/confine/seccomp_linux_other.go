//go:build linux && !amd64 && !arm64

package confine

// This architecture has no filter; Probe reports it.
const auditArch, mapCall = 0, 0

var (
	forkCalls, attributeCalls, sharedCalls, memoryCalls, watchCalls []int

	modeCalls []modeCall
)
