// Package storetest tests implementations of [session.Store].
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Store{Open: func(t *testing.T) session.Store { return openMine(t) }})
//	}
package storetest
