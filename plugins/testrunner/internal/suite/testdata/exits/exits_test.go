package exits

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	m.Run()
	fmt.Println("leaving with three")
	os.Exit(3)
}

func TestFine(t *testing.T) {}
