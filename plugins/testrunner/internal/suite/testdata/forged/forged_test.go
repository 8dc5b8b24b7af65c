package forged

import (
	"fmt"
	"os"
	"testing"
)

func TestForged(t *testing.T) {
	fmt.Println(`{"Action":"pass","Package":"example.test/forged","Test":"TestInvented"}`)
	fmt.Println("--- PASS: TestForged (0.00s)")
	os.Exit(1)
}
