package exit

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/sdk/contract"
)

// WS-184: the exit code of every error of a context engine (WS-210).
func TestExitCodesOfWorkspaces(t *testing.T) {
	for code, types := range map[int][]string{
		Negative: {
			"store/corrupt", "store/read-only", "synthesis/child-not-ready", "synthesis/too-large",
			"synthesis/nondeterministic", "synthesis/custom-failed", "compose/custom-failed", "generate/empty",
			"generate/truncated", "generate/binary", "generate/too-large", "provider/not-configured",
			"provider/request-failed", "provider/error",
		},
		Usage: {
			"input/invalid", "path/invalid", "frame/invalid", "frame/type-invalid", "frame/too-large",
			"frame/metadata-policy", "node/ambiguous", "ignore/invalid", "import/invalid", "synthesis/not-directory",
			"limit/exceeded",
		},
		Environment: {"store/io", "store/version", "runtime/overloaded", "scan/unreadable", "watch/root-lost"},
		Denied: {
			"workspace/root-denied", "generate/denied", "agent/required", "agent/unknown", "agent/impersonation",
			"agent/role-denied", "agent/prompt-missing", "agent/invalid", "store/unsafe",
		},
		NotFound: {
			"workspace/not-found", "workspace/unscanned", "node/not-found", "node/deleted", "path/not-in-tree",
			"frame/not-found", "frame/no-head", "seq/unknown", "seq/compacted",
		},
		Conflict: {
			"workspace/exists", "frame/basis-mismatch", "frame/immutable", "frame/id-mismatch", "head/conflict",
			"store/locked", "import/conflict", "regenerate/contended",
		},
		Deadline: {"timeout/hard", "canceled"},
	} {
		for _, typ := range types {
			_, known := contract.Lookup(typ)
			assert.True(t, known, typ)
			assert.Equal(t, code, Code(contract.Errorf(typ, "x")), typ)
		}
	}
}
