package launch

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SUP-010: a missing interpreter or loader is distinguished from a missing
// program, and so is a program for another machine.
func TestStartNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		text  []byte
		cause error
		says  string
	}{
		"script": {[]byte("#!/nowhere/python3 -B\nx\n"), syscall.ENOENT, "/nowhere/python3"},
		"loader": {dynamic(t, "/nowhere/ld.so"), syscall.ENOENT, "/nowhere/ld.so"},
		"text":   {[]byte("hello\n"), syscall.ENOEXEC, "not a program for this system"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, tt.text, 0o755)) // executable
			_, err := Start(Command{Path: path})
			require.ErrorIs(t, err, tt.cause)
			assert.Contains(t, err.Error(), tt.says)
		})
	}
	_, err := Start(Command{Path: filepath.Join(dir, "none")})
	require.ErrorIs(t, err, syscall.ENOENT)
	assert.NotContains(t, err.Error(), "interpreter")
}

// dynamic returns the head of an ELF program for this machine with a loader.
func dynamic(t *testing.T, loader string) []byte {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	const header, entry = 64, 56
	text := make([]byte, header+entry, 4096)
	copy(text, self[:header])
	order := binary.LittleEndian
	order.PutUint64(text[32:], header)    // where the program headers are
	order.PutUint64(text[40:], 0)         // no section headers
	order.PutUint16(text[56:], 1)         // one program header
	order.PutUint16(text[60:], 0)         // no section headers
	order.PutUint16(text[62:], 0)         // no section names
	order.PutUint32(text[header:], 3)     // PT_INTERP
	order.PutUint32(text[header+4:], 4)   // readable
	order.PutUint64(text[header+8:], 120) // offset
	order.PutUint64(text[header+32:], uint64(len(loader)+1))
	order.PutUint64(text[header+40:], uint64(len(loader)+1))
	return append(append(text, loader...), 0)
}
