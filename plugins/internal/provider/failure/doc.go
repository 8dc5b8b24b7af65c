// Package failure converts failures between this program and a model server to
// the typed errors of the contract.
//
// Rows are the table of failures: type, class, source and family of each. A
// Reporter makes their errors for one provider; it adds known details (status,
// request id, time to wait, whether anything was sent) and removes the
// provider's secrets from every text. No error has the source plugin: a
// provider that is down never restarts this process.
//
// All functions are pure and safe for concurrent use.
package failure
