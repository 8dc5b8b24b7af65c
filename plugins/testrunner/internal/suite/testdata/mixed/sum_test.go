package mixed

import "testing"

func TestSum(t *testing.T) {
	for name, c := range map[string][3]int{"small": {1, 2, 3}, "zero": {0, 0, 0}} {
		t.Run(name, func(t *testing.T) {
			if got := Sum(c[0], c[1]); got != c[2] {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestWrong(t *testing.T) {
	t.Log("the words before")
	if Sum(1, 1) != 3 {
		t.Error("one and one is not three")
	}
}

func TestLater(t *testing.T) { t.Skip("not today") }
