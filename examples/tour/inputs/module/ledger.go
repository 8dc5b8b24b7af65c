// Package ledger keeps accounts in whole cents. It is the patient of the tour:
// a small module with a test suite that a test runner can be asked about.
package ledger

import (
	"errors"
	"fmt"
	"slices"
)

// ErrFunds is returned when a transfer would overdraw an account.
var ErrFunds = errors.New("ledger: not enough funds")

// Ledger maps accounts to balances in cents. The zero value is empty.
type Ledger struct {
	balance map[string]int64
}

// Deposit adds cents to an account; a new account begins at zero.
func (l *Ledger) Deposit(account string, cents int64) error {
	if cents <= 0 {
		return fmt.Errorf("ledger: deposit of %d cents", cents)
	}
	if l.balance == nil {
		l.balance = map[string]int64{}
	}
	l.balance[account] += cents
	return nil
}

// Transfer moves cents from one account to another, all or nothing.
func (l *Ledger) Transfer(from, to string, cents int64) error {
	switch {
	case cents <= 0:
		return fmt.Errorf("ledger: transfer of %d cents", cents)
	case l.balance[from] < cents:
		return fmt.Errorf("%w: %s has %d, needs %d", ErrFunds, from, l.balance[from], cents)
	}
	l.balance[from] -= cents
	l.balance[to] += cents
	return nil
}

// Balance is what an account holds; an unknown account holds nothing.
func (l *Ledger) Balance(account string) int64 { return l.balance[account] }

// Accounts lists the accounts in order.
func (l *Ledger) Accounts() []string {
	names := make([]string, 0, len(l.balance))
	for name := range l.balance {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
