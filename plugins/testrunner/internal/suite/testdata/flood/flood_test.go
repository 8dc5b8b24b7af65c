package flood

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestFlood(t *testing.T) {
	fmt.Println("the first line")
	line := strings.Repeat("x", 1000)
	for range 20_000 {
		fmt.Println(line)
	}
	_, _ = os.Stdout.WriteString(strings.Repeat("y", 1<<20)) // one endless line
	t.Fatal("the last line")
}
