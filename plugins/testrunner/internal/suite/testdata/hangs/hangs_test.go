package hangs

import (
	"os"
	"os/exec"
	"testing"
)

func TestFirst(t *testing.T) {}

func TestHangs(t *testing.T) {
	// A child that outlives its parent, in the same session.
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("CHILD_PID_FILE"); path != "" {
		if err := os.WriteFile(path, []byte(itoa(child.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("waiting for ever")
	select {}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}
