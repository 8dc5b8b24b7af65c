package brokentest

import "testing"

func TestNothing(t *testing.T) { undefined() }
