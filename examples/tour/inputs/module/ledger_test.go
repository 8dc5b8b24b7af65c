package ledger

import (
	"errors"
	"slices"
	"testing"
)

func TestDeposit(t *testing.T) {
	var l Ledger
	if err := l.Deposit("ada", 500); err != nil || l.Balance("ada") != 500 {
		t.Fatalf("balance %d, %v", l.Balance("ada"), err)
	}
	for _, cents := range []int64{0, -1} {
		if l.Deposit("ada", cents) == nil {
			t.Errorf("a deposit of %d was taken", cents)
		}
	}
}

func TestTransfer(t *testing.T) {
	var l Ledger
	if err := l.Deposit("ada", 500); err != nil {
		t.Fatal(err)
	}
	t.Run("moves", func(t *testing.T) {
		if err := l.Transfer("ada", "bob", 200); err != nil || l.Balance("ada") != 300 || l.Balance("bob") != 200 {
			t.Fatalf("ada %d, bob %d, %v", l.Balance("ada"), l.Balance("bob"), err)
		}
	})
	t.Run("refuses to overdraw", func(t *testing.T) {
		if err := l.Transfer("bob", "ada", 201); !errors.Is(err, ErrFunds) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("keeps the sum", func(t *testing.T) {
		if sum := l.Balance("ada") + l.Balance("bob"); sum != 500 {
			t.Fatalf("sum %d", sum)
		}
	})
}

func TestAccountsAreSorted(t *testing.T) {
	var l Ledger
	for _, name := range []string{"cid", "ada", "bob"} {
		if err := l.Deposit(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Accounts(); !slices.IsSorted(got) || len(got) != 3 {
		t.Fatalf("got %v", got)
	}
}
