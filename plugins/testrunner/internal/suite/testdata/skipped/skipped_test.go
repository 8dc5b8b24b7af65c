package skipped

import "testing"

func TestLater(t *testing.T) { t.Skip("not today") }
