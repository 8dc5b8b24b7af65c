// Package failure turns what goes wrong between this program and a model server
// into the typed errors of the contract.
//
// Rows are the table of failures: type, class, source and family of each. A
// Reporter makes their errors for one provider; it writes into the details what
// is known (status, request id, how long to wait, whether anything was sent)
// and takes the secrets of the provider out of every text. No error has the
// source plugin: a provider that is down never restarts this process.
//
// Everything is a pure function of its arguments and safe for concurrent use.
package failure
