// Package txclose finds transactions of package conversation that some path of a
// function leaves open, so that their messages are lost.
//
//	go install github.com/fermenthq/ferment/sdk/conversation/txclose/cmd/txclose@latest
//	go vet -vettool=$(which txclose) ./...
//
// A function that gets a transaction from a call owns it. On each path to a
// return it must end it (Close, Rollback, or Commit of a conversation.Transaction)
// or hand it over: return it, store it, pass it to a function. A commit of a
// session can fail and then leaves the transaction open; it ends the transaction
// only where its error is nil. The usual way to be right is
//
//	tx := sess.Begin()
//	defer tx.Close()
package txclose
