package green

import "testing"

func TestGreen(t *testing.T) {}
